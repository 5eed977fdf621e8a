/** A short run of `npm run fuzz`, and runs against a receiver without a protection, which must find it. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { bundled, hollowSignature, type Rewrite, replaced } from "../service/bundles.ts";
import { folder, onFolder } from "../service/own-folder.ts";
import { fuzzBundle } from "./run.ts";

onFolder();

async function fuzz(count: number, rewrite?: Rewrite) {
  const bundle = join(folder, "receiver.cjs");
  await bundled("receiver", bundle, rewrite);
  return fuzzBundle(bundle, count, 1);
}

test("the receiver answers 4,000 random requests as the oracle says", async () => {
  const { faults, statuses } = await fuzz(4_000);
  expect(faults).toEqual([]);
  for (const status of [200, 202, 400, 401, 404, 405, 415]) expect(statuses[status]).toBeGreaterThan(0);
  expect(statuses[429]).toBeUndefined();
});

const ofLength = replaced("git-hosts/hmac-signature.ts", "length && timingSafeEqual", "length || timingSafeEqual");
const stale = replaced("git-hosts/standard-signature.ts", "Math.abs(seconds) <= tolerance", "true");

test.each([
  ["any signature", hollowSignature, /./],
  ["any signature of the right length", ofLength, /./],
  ["a stale timestamp", stale, /POST \/webhook\/(gitlab|standard-webhooks)/],
])("the fuzzer finds a receiver that accepts %s", async (_, rewrite, request) => {
  const { faults } = await fuzz(2_000, rewrite);
  expect(faults[0]).toContain(", not 401,");
  expect(faults[0]).toMatch(request);
});
