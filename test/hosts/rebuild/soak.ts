/**
 * `npm run soak -- --rebuild [--kills N] [--reads N] [--publishes N] [--cuts N] [--steps N] [--seed S] [--release R]`: what
 * has to hold however often it is tried, on one throwaway host; needs what `npm run test:rebuild` needs, and xfsprogs.
 * Without counts, those that are run whole once.
 */
import { parseArgs } from "node:util";
import { bootHost } from "../lab/host.ts";
import { withLab } from "../lab/lab.ts";
import { step } from "../lab/process.ts";
import { ready } from "../ready.ts";
import { soakReads } from "./constant-readers.ts";
import { onOwnDisk, soakCuts, trustPageCache } from "./power-cuts.ts";
import { soakKills } from "./process-kills.ts";
import { soakWalk } from "./random-walk.ts";
import { buildRebuild } from "./world.ts";

const { values } = parseArgs({
  options: {
    rebuild: { type: "boolean" },
    kills: { type: "string", default: "1000" },
    reads: { type: "string", default: "100000" },
    publishes: { type: "string", default: "20" },
    cuts: { type: "string", default: "50" },
    steps: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    release: { type: "string", default: "bookworm" },
  },
});
const count = (name: "kills" | "reads" | "publishes" | "cuts" | "steps" | "seed"): number => {
  const given = Number(values[name]);
  if (Number.isInteger(given) && given >= 0) return given;
  console.error(`soak: --${name} takes a whole number`);
  process.exit(2);
};
const counts = {
  kills: count("kills"),
  reads: count("reads"),
  publishes: count("publishes"),
  cuts: count("cuts"),
  steps: count("steps"),
};
const seed = count("seed");
const release = await ready("soak", values.release);

let passed = 0;
let failed = 0;
async function soak(name: string, work: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  const said = await work().then(
    (figures) => {
      passed += 1;
      return JSON.stringify(figures);
    },
    (error: Error) => {
      failed += 1;
      return `failed, seed ${seed}: ${error.message}`;
    },
  );
  console.log(`soak: ${name}: ${((performance.now() - started) / 1000).toFixed(0)} s: ${said}`);
}

await withLab({ releases: [release] }, async () => {
  const host = await step(`boot ${release}`, () => bootHost({ name: "soak", release, variant: "packages" }));
  await host.inside("groupadd writers && usermod -aG writers guest");
  const rebuild = await buildRebuild(host, { site: { writers: "writers" }, docs: false });
  await step("pulumi up", () => rebuild.start());

  await soak("content after random steps", () => soakWalk(rebuild, counts.steps, seed));
  await soak("reads during publishes", () => soakReads(rebuild, counts.reads, counts.publishes));
  await soak("kill -9", () => soakKills(rebuild, counts.kills, seed));
  const disk = await onOwnDisk(rebuild);
  await soak("power cuts", () => soakCuts(rebuild, disk, counts.cuts, seed));
  if (counts.cuts > 0)
    await soak("power cuts are noticed where nothing is synced", async () => {
      await trustPageCache(host);
      const lost = await soakCuts(rebuild, disk, 10, seed).then(
        () => undefined,
        (error: Error) => error.message,
      );
      if (lost === undefined) throw new Error("10 cuts lost nothing: they prove nothing");
      return lost;
    });
  await disk.close();
  await rebuild.close();
  await host.kill();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
});
