/**
 * `npm run fuzz -- [--count N] [--seed S]`: altered deliveries of every git host to the receiver's bundle, some of them valid,
 * over kept connections. It fails on an answer that its own HMAC contradicts, on an answer without X-Served-By, on a spool
 * file without an accepted delivery, on the end of the process, and where a descriptor stays open. It prints its seed, and
 * --seed repeats it with timestamps of the new run.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { misused, optionsOf } from "../options.ts";
import { bundled } from "../service/bundles.ts";
import { fuzzBundle } from "./run.ts";

const values = optionsOf("fuzz", {
  count: { type: "string", default: "1000000" },
  seed: { type: "string", default: String(Date.now() % 1_000_000) },
});
const [count, seed] = [Number(values.count), Number(values.seed)];
if (!(count >= 100) || !Number.isInteger(seed))
  misused("fuzz", "use a number from 100 for --count, and a whole number for --seed");
console.log(`fuzz: --seed ${seed}`);
const folder = mkdtempSync(join(tmpdir(), "pushgate-fuzz-"));
try {
  await bundled("receiver", join(folder, "receiver.cjs"));
  const done = await fuzzBundle(join(folder, "receiver.cjs"), count, seed);
  for (const fault of done.faults) console.error(`fuzz: --seed ${seed}: ${fault}`);
  console.log(JSON.stringify(done.statuses));
  console.log(`${done.sent} passed, ${done.faults.length} failed`);
  process.exitCode = done.faults.length > 0 ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
