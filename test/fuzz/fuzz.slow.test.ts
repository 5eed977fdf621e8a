/** A short run of `npm run fuzz`, and runs against a receiver without a protection, which must find it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { gitHostNames } from "../../service/git-hosts/index.ts";
import { bundled, hollowSignature } from "../service/bundles.ts";
import { generator } from "./requests.ts";
import { fuzzBundle } from "./run.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-fuzz-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the receiver answers 4,000 random requests as the oracle says", async () => {
  const bundle = join(folder, "receiver.cjs");
  await bundled("receiver", bundle);
  const { sent, faults, statuses } = await fuzzBundle(bundle, { count: 4_000, seconds: 150, seed: 1 });
  expect(faults).toEqual([]);
  expect(sent).toBe(4_000);
  for (const status of [200, 202, 400, 401, 404, 405, 415]) expect(statuses[status]).toBeGreaterThan(0);
  expect(statuses[429]).toBeUndefined();
}, 180_000);

test("the generator makes valid pushes of each git host, and the same ones for a seed", () => {
  const [make, again] = [generator(1, gitHostNames), generator(1, gitHostNames)];
  const made = Array.from({ length: 4_000 }, make);
  const whole = made.filter(({ valid, push, broken }) => valid && push && !broken);
  const hooks = whole.map(({ bytes }) => /^POST \/webhook\/(\S+)/.exec(bytes.toString("latin1"))![1]!);
  expect([...new Set(hooks)].sort()).toEqual([...gitHostNames].sort());
  expect(Array.from({ length: 4_000 }, again).map(({ valid }) => valid)).toEqual(made.map(({ valid }) => valid));
});

test("the fuzzer finds a receiver that does not check signatures", async () => {
  const bundle = join(folder, "hollow.cjs");
  await bundled("receiver", bundle, hollowSignature);
  const { faults } = await fuzzBundle(bundle, { count: 2_000, seconds: 40, seed: 1 });
  expect(faults[0]).toContain("to a request that is not signed");
});

test.each([
  [
    "any signature of the right length",
    "hmac-signature.ts",
    "length && timingSafeEqual",
    "length || timingSafeEqual",
    /./,
  ],
  [
    "every delivery of Gogs",
    "index.ts",
    '...hmacSignature("X-Gogs-Signature", ""),',
    '...hmacSignature("X-Gogs-Signature", ""), verify: () => true,',
    /POST \/webhook\/gogs /,
  ],
  [
    "any signature of Standard Webhooks",
    "standard-signature.ts",
    "(!isKey(secret) || signatureFault(headers) !== undefined) return false",
    "(signatureFault(headers) === undefined) return true",
    /POST \/webhook\/(gitlab|standard-webhooks)/,
  ],
  [
    "a stale timestamp",
    "standard-signature.ts",
    "Math.abs(seconds) <= tolerance",
    "true",
    /POST \/webhook\/(gitlab|standard-webhooks)/,
  ],
  ["a signing token as it is", "gitlab-signature.ts", "!isMeantAsKey(secret) &&", "", /POST \/webhook\/gitlab/],
])("the fuzzer finds a receiver that accepts %s", async (_, module, from, to, request) => {
  const bundle = join(folder, "lenient.cjs");
  await bundled("receiver", bundle, (file, text) => {
    if (file !== `git-hosts/${module}`) return text;
    if (!text.includes(from)) throw new Error(`${module} has no longer: ${from}`);
    return text.replace(from, to);
  });
  const { faults } = await fuzzBundle(bundle, { count: 2_000, seconds: 40, seed: 1 });
  expect(faults[0]).toContain("to a request that is not signed");
  expect(faults[0]).toMatch(request);
});
