/**
 * `npm run soak -- --rebuild [--kills N] [--reads N] [--publishes N] [--steps N] [--runs N] [--seed S]
 * [--release R]`: repeats random events on one throwaway host and checks that no push is lost and no visitor sees a
 * broken page. Then cuts the power at each step of single runs, and in others without one of the syncs. Needs the tools
 * of `npm run test:rebuild` and xfsprogs. The default counts are one full run.
 */
import { parseArgs } from "node:util";
import { cutRuns } from "../cuts/steps.ts";
import { bootHost } from "../lab/host.ts";
import { withLab } from "../lab/lab.ts";
import { step } from "../lab/process.ts";
import { ready } from "../ready.ts";
import { soakReads } from "./constant-readers.ts";
import { soakKills } from "./process-kills.ts";
import { soakWalk } from "./random-walk.ts";
import { buildRebuild } from "./world.ts";

const { values } = parseArgs({
  options: {
    rebuild: { type: "boolean" },
    kills: { type: "string", default: "1000" },
    reads: { type: "string", default: "100000" },
    publishes: { type: "string", default: "20" },
    steps: { type: "string", default: "100" },
    runs: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    release: { type: "string", default: "bookworm" },
  },
});
const count = (name: "kills" | "reads" | "publishes" | "steps" | "runs" | "seed"): number => {
  const given = Number(values[name]);
  if (Number.isInteger(given) && given >= 0) return given;
  console.error(`soak: --${name} is ${values[name]}. Use a whole number.`);
  process.exit(2);
};
const counts = {
  kills: count("kills"),
  reads: count("reads"),
  publishes: count("publishes"),
  steps: count("steps"),
  runs: count("runs"),
};
const seed = count("seed");
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
  await host.inside("groupadd writers && usermod -aG writers guest");
  const rebuild = await buildRebuild(host, { site: { writers: "writers" }, docs: false });
  await step("pulumi up", () => rebuild.start());

  await soak("content after random steps", () => soakWalk(rebuild, counts.steps, seed));
  await soak("reads during publishes", () => soakReads(rebuild, counts.reads, counts.publishes));
  await soak("kill -9", () => soakKills(rebuild, counts.kills, seed));
  await rebuild.close();
  await host.kill();
  for (const { name, work } of cutRuns(seed).slice(0, counts.runs)) await soak(name, work);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
