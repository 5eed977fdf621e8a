/** Random walks over a host. `npm run soak` has longer ones. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { actions, nothingWalked, walk } from "./reconcile-walk.ts";

test("reconcile misses no drift, and converges, in 300 random manual changes, program changes and kills", {
  timeout: 600_000,
}, async () => {
  const walked = nothingWalked();
  await fc.assert(
    fc.property(actions(30), (steps) => walk(steps, walked)),
    { seed: 20_261_121, numRuns: 20 },
  );
  console.log(`walked: ${JSON.stringify(walked)}`);
  expect(walked.steps).toBeGreaterThanOrEqual(300);
  expect(Math.min(walked.killed, walked.rejected, walked.rolledBack)).toBeGreaterThan(0);
});
