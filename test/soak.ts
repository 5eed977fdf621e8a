/**
 * `npm run soak -- --minutes N [--seed S]`: the long counts, seeded. Random walks of edits, applies, kills and refused
 * applies on a real shell; random deliveries against the real receiver; random expressions against the rule language.
 * A failure prints the seed of its round: the same seed is the same round. With --rebuild: test/hosts/rebuild/soak.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { compile, ExpressionError } from "./fakes/cloudflare/expression.ts";
import { delivery } from "./fakes/deliveries.ts";
import { example, random } from "./fixtures.ts";
import { soakWalks } from "./infra/apply/reconcile-walk.ts";
import { bundled } from "./service/bundles.ts";
import { type Receiver, startReceiver } from "./service/receiver-process.ts";

// Its own program, in a lab of its own, where it ends.
if (process.argv.includes("--rebuild")) await import("./hosts/rebuild/soak.ts");

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, seed: { type: "string", default: "1" } },
});
const minutes = Number(values.minutes);
const firstSeed = Number(values.seed);
if (!(minutes > 0) || !Number.isInteger(firstSeed)) {
  console.error("soak: --minutes takes a number above 0, --seed a whole number");
  process.exit(2);
}

const tokens = [
  "(",
  ")",
  "{",
  "}",
  "and",
  "or",
  "not",
  "eq",
  "ne",
  "in",
  "any",
  "len",
  "starts_with",
  "[*]",
  "[0]",
  ",",
  '"a"',
  '"',
  "1",
  "ssl",
];
const more = [
  "http.host",
  "http.request.uri.path",
  'http.request.headers["x-hub-signature-256"]',
  "ip.src",
  "10.0.0.0/8",
  "::/0",
  " ",
  "\\",
  "🙂",
];

/** Every text is either compiled or refused with a position; it never throws anything else. */
function expressions(seed: number, count: number): void {
  const next = random(seed);
  const words = [...tokens, ...more];
  for (let i = 0; i < count; i++) {
    const text = Array.from(
      { length: 1 + Math.floor(next() * 14) },
      () => words[Math.floor(next() * words.length)],
    ).join(" ");
    try {
      compile(text).matches(
        { source: "192.30.252.7", method: "POST", host: "a", target: "/", headers: {} },
        "example.org",
      );
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw new Error(`expression ${JSON.stringify(text)}: ${error}`);
    }
  }
}

/** One byte changed anywhere, and the signature no longer fits: never a 2xx, nothing spooled, never a crash. */
async function deliveries(receiver: Receiver, seed: number, count: number): Promise<void> {
  const next = random(seed);
  for (let i = 0; i < count; i++) {
    const good = delivery();
    const body = Buffer.from(good.body);
    const at = Math.floor(next() * body.length);
    body[at] = body[at]! ^ (1 + Math.floor(next() * 255));
    const kept = receiver.spooled();
    const { status } = await receiver.deliver({ ...good, body });
    if (status !== 401) throw new Error(`byte ${at} changed, and the answer is ${status}`);
    if (receiver.spooled() !== kept) throw new Error(`byte ${at} changed, and something was spooled`);
  }
  const { status } = await receiver.deliver(delivery());
  if (status !== 202 && status !== 429)
    throw new Error(`after ${count} refusals a good delivery is answered ${status}`);
}

const folder = mkdtempSync(join(tmpdir(), "pushgate-soak-"));
const bundle = join(folder, "receiver.cjs");
await bundled("receiver", bundle);
// The budget of refusals is not what is soaked: with the default all but 60 a minute would be 429 before any HMAC.
const unlimited = { ...example, limits: { ...example.limits, refusalsPerMinute: 10_000 } };
const receiver = await startReceiver(bundle, unlimited);

const until = performance.now() + minutes * 60_000;
const counts = { rounds: 0, steps: 0, killed: 0, expressions: 0, deliveries: 0 };
let failed = 0;
for (let seed = firstSeed; performance.now() < until && failed === 0; seed++) {
  try {
    const { steps, killed } = soakWalks({ steps: 200, seed });
    expressions(seed, 20_000);
    await deliveries(receiver, seed, 200);
    counts.rounds++;
    counts.steps += steps;
    counts.killed += killed;
    counts.expressions += 20_000;
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
