/**
 * `npm run soak -- --minutes N [--seed S]`: each round has random walks of edits, applies, kills and failed applies in a real
 * shell. A failure prints the seed of its round, which repeats it. --rebuild, --hostile, --drift and --walk run
 * test/hosts/rebuild/soak.ts instead.
 */
import { soakWalks } from "./infra/apply/reconcile-walk.ts";
import { misused, optionsOf } from "./options.ts";

// It runs in its own lab and ends the process.
if (["--rebuild", "--hostile", "--drift", "--walk"].some((word) => process.argv.includes(word)))
  await import("./hosts/rebuild/soak.ts");

const values = optionsOf(
  "soak",
  { minutes: { type: "string", default: "10" }, seed: { type: "string", default: "1" } },
  "release rebuild hostile drift walk kills runs steps",
);
const minutes = Number(values.minutes);
const firstSeed = Number(values.seed);
if (!(minutes > 0) || !Number.isInteger(firstSeed))
  misused("soak", "use a number above 0 for --minutes and a whole number for --seed");

const until = performance.now() + minutes * 60_000;
const counts = { rounds: 0, steps: 0, killed: 0 };
let failed = 0;
for (let seed = firstSeed; performance.now() < until && failed === 0; seed++) {
  try {
    const { steps, killed } = soakWalks({ steps: 200, seed });
    counts.rounds++;
    counts.steps += steps;
    counts.killed += killed;
    console.log(`soak: seed ${seed}: ${JSON.stringify(counts)}`);
  } catch (error) {
    failed++;
    console.error(`soak: seed ${seed} failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
console.log(`${counts.rounds} passed, ${failed} failed`);
process.exitCode = failed > 0 || counts.rounds === 0 ? 1 : 0;
