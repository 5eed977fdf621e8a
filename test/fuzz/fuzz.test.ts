/** A short run of `npm run fuzz`, and runs against a receiver without a protection, which must find it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bundled, hollowSignature } from "../service/bundles.ts";
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

test("the fuzzer finds a receiver that does not check signatures", async () => {
  const bundle = join(folder, "hollow.cjs");
  await bundled("receiver", bundle, hollowSignature);
  const { faults } = await fuzzBundle(bundle, { count: 2_000, seconds: 40, seed: 1 });
  expect(faults[0]).toContain("to a request that is not signed");
});

test("the fuzzer finds a receiver that accepts a signature of another length", async () => {
  const bundle = join(folder, "lenient.cjs");
  await bundled("receiver", bundle, (file, text) =>
    file === "git-hosts/hmac-signature.ts" ? text.replace("if (key.length === 0) continue;", "matches = true;") : text,
  );
  const { faults } = await fuzzBundle(bundle, { count: 2_000, seconds: 40, seed: 1 });
  expect(faults[0]).toContain("to a request that is not signed");
});
