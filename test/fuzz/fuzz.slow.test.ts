/** A short run of `npm run fuzz`, and runs against a receiver without a protection, which must find it. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { gitHostNames } from "../../service/git-hosts/index.ts";
import { bundled, hollowSignature, type Rewrite, replaced } from "../service/bundles.ts";
import { folder, onFolder } from "../service/own-folder.ts";
import { generator } from "./requests.ts";
import { fuzzBundle } from "./run.ts";

onFolder();

async function fuzz(count: number, rewrite?: Rewrite) {
  const bundle = join(folder, "receiver.cjs");
  await bundled("receiver", bundle, rewrite);
  return fuzzBundle(bundle, { count, seconds: 100, seed: 1 });
}

test("the receiver answers 4,000 random requests as the oracle says", async () => {
  const { sent, faults, statuses } = await fuzz(4_000);
  expect(faults).toEqual([]);
  expect(sent).toBe(4_000);
  for (const status of [200, 202, 400, 401, 404, 405, 415]) expect(statuses[status]).toBeGreaterThan(0);
  expect(statuses[429]).toBeUndefined();
});

test("the generator makes valid pushes of each git host, and the same ones for a seed", () => {
  const [made, again] = [generator(1), generator(1)].map((make) => Array.from({ length: 4_000 }, make));
  const whole = made!.filter(({ valid, push, broken }) => valid && push && !broken);
  const hooks = whole.map(({ bytes }) => /^POST \/webhook\/(\S+)/.exec(bytes.toString("latin1"))![1]!);
  expect([...new Set(hooks)].sort()).toEqual([...gitHostNames].sort());
  expect(again!.map(({ valid }) => valid)).toEqual(made!.map(({ valid }) => valid));
});

const ofLength = replaced("git-hosts/hmac-signature.ts", "length && timingSafeEqual", "length || timingSafeEqual");
const stale = replaced("git-hosts/standard-signature.ts", "Math.abs(seconds) <= tolerance", "true");
const asToken = replaced("git-hosts/gitlab-signature.ts", "!isMeantAsKey(secret) &&", "");

test.each([
  ["any signature", hollowSignature, /./],
  ["any signature of the right length", ofLength, /./],
  ["a stale timestamp", stale, /POST \/webhook\/(gitlab|standard-webhooks)/],
  ["a signing token as it is", asToken, /POST \/webhook\/gitlab/],
])("the fuzzer finds a receiver that accepts %s", async (_, rewrite, request) => {
  const { faults } = await fuzz(2_000, rewrite);
  expect(faults[0]).toContain("to a request that is not signed");
  expect(faults[0]).toMatch(request);
});
