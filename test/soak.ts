/**
 * `npm run soak -- --minutes N [--seed S]`: long random tests with a seed. Each round has random walks of edits, applies,
 * kills and failed applies in a real shell, and altered deliveries to the real receiver. A failure prints the seed of its
 * round, which repeats it. --rebuild, --hostile, --drift and --walk run test/hosts/rebuild/soak.ts instead.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { delivery } from "./fakes/deliveries.ts";
import { example, random } from "./fixtures.ts";
import { soakWalks } from "./infra/apply/reconcile-walk.ts";
import { misused, optionsOf } from "./options.ts";
import { bundled } from "./service/bundles.ts";
import { type Receiver, startReceiver } from "./service/receiver-process.ts";

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

/** Changes one byte of each body, so that the signature does not match: the receiver answers 401 and spools nothing. */
async function deliveries(receiver: Receiver, seed: number, count: number): Promise<void> {
  const next = random(seed);
  for (let i = 0; i < count; i++) {
    const good = delivery();
    const body = Buffer.from(good.body);
    const at = Math.floor(next() * body.length);
    body[at] = body[at]! ^ (1 + Math.floor(next() * 255));
    const kept = receiver.spooled();
    const { status } = await receiver.deliver({ ...good, body });
    if (status !== 401) throw new Error(`the receiver answered ${status} to a body with byte ${at} changed`);
    if (receiver.spooled() !== kept) throw new Error(`the receiver spooled a body with byte ${at} changed`);
  }
  const { status } = await receiver.deliver(delivery());
  if (status !== 202 && status !== 429)
    throw new Error(`the receiver answered ${status} to a valid delivery after ${count} rejections`);
}

const folder = mkdtempSync(join(tmpdir(), "pushgate-soak-"));
const bundle = join(folder, "receiver.cjs");
await bundled("receiver", bundle);
// With the default rate budget the receiver would answer 429 to all but 60 rejections per minute, without any HMAC.
const unlimited = { ...example, limits: { ...example.limits, rejectionsPerMinute: 10_000 } };
const receiver = await startReceiver(bundle, unlimited);

const until = performance.now() + minutes * 60_000;
const counts = { rounds: 0, steps: 0, killed: 0, deliveries: 0 };
let failed = 0;
for (let seed = firstSeed; performance.now() < until && failed === 0; seed++) {
  try {
    const { steps, killed } = soakWalks({ steps: 200, seed });
    await deliveries(receiver, seed, 200);
    counts.rounds++;
    counts.steps += steps;
    counts.killed += killed;
    counts.deliveries += 200;
    console.log(`soak: seed ${seed}: ${JSON.stringify(counts)}`);
  } catch (error) {
    failed++;
    console.error(`soak: seed ${seed} failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
await receiver.stop();
rmSync(folder, { recursive: true, force: true });
console.log(`${counts.rounds} passed, ${failed} failed`);
process.exitCode = failed > 0 || counts.rounds === 0 ? 1 : 0;
