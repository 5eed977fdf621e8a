/**
 * `npm run soak -- --rebuild [--kills N] [--runs N] [--seed S] [--release R]`: kills processes at random moments on one
 * throwaway host and checks that no push is lost and no visitor sees a broken page. Then cuts the power at each step of
 * single runs, and in others without one of the syncs. Needs the tools of `npm run test:rebuild` and xfsprogs. The
 * default counts are one full run. With --hostile [--minutes N] instead: repeats attacks beside good pushes (attacks.ts).
 * With --drift [--runs N]: makes and repairs all manual changes of drift.ts, or N rounds of them from the seed's on.
 * With --walk [--steps N]: a random walk of changes, interrupted applies and killed engines (walk.ts). These two need the
 * releases that ../lab/release-archives.ts packs.
 */
import { misused, optionsOf } from "../../options.ts";
import { cutRuns } from "../cuts/steps.ts";
import { rounds } from "../drift.ts";
import { bootHost } from "../lab/host.ts";
import { withLab } from "../lab/lab.ts";
import { step } from "../lab/process.ts";
import { noArchives } from "../lab/release-archives.ts";
import { ready } from "../ready.ts";
import { soakAttacks } from "./attacks.ts";
import { openDocs } from "./site.ts";
import { buildDrifting, soakHarmless, soakRound } from "./soak-drift.ts";
import { soakKills } from "./soak-kills.ts";
import { walk } from "./walk.ts";
import { buildRebuild } from "./world.ts";

const values = optionsOf("soak", {
  rebuild: { type: "boolean" },
  hostile: { type: "boolean", default: false },
  drift: { type: "boolean", default: false },
  minutes: { type: "string", default: "10" },
  walk: { type: "boolean", default: false },
  steps: { type: "string", default: "500" },
  kills: { type: "string", default: "1000" },
  runs: { type: "string", default: "100" },
  seed: { type: "string", default: "1" },
  release: { type: "string", default: "bookworm" },
});
const [kills = 0, runs, seed = 0, minutes = 0, steps = 0] = (
  ["kills", "runs", "seed", "minutes", "steps"] as const
).map((name) => {
  const given = Number(values[name]);
  if (!(given >= 0)) misused("soak", `--${name} is ${values[name]}. Use a number.`);
  return given;
});
if ((values.drift || values.walk) && noArchives !== undefined) misused("soak", noArchives);
const release = await ready("soak", values.release);

let passed = 0;
let failed = 0;
async function soak(name: string, work: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  const outcome = await work().then(
    (figures) => {
      passed += 1;
      return JSON.stringify(figures);
    },
    (error: Error) => {
      failed += 1;
      return `failed, seed ${seed}: ${error.message}`;
    },
  );
  console.log(`soak: ${name}: ${((performance.now() - started) / 1000).toFixed(0)} s: ${outcome}`);
}

await withLab({ releases: [release] }, async () => {
  console.log(`soak: seed ${seed}`);
  const host = await step(`boot ${release}`, () => bootHost({ name: "soak", release, variant: "packages" }));
  const rebuild = await (values.drift || values.walk
    ? buildDrifting(host)
    : buildRebuild(host, { docs: values.hostile && openDocs }));
  await step("pulumi up", () => rebuild.start());
  if (values.walk) await soak("walk", () => walk(rebuild, steps, seed));
  else if (values.hostile) await soak("attacks", () => soakAttacks(rebuild, minutes, seed));
  else if (values.drift) {
    for (const [i] of rounds.slice(0, runs).entries()) {
      const at = (seed - 1 + i) % rounds.length;
      await soak(`round ${at + 1}`, () => soakRound(rebuild, rounds[at]!));
    }
    await soak("no drift", () => soakHarmless(rebuild));
  } else await soak("kill -9", () => soakKills(rebuild, kills, seed));
  await rebuild.close();
  await host.kill();
  for (const { name, work } of values.hostile || values.drift || values.walk ? [] : cutRuns(seed).slice(0, runs))
    await soak(name, work);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
