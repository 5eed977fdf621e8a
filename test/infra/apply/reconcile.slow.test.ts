/** Random walks over a host. `npm run soak` has longer ones. */
import { expect, test } from "vitest";
import { soakWalks } from "./reconcile-walk.ts";

test("reconcile misses no drift, and converges, in 300 random manual changes, program changes and kills", {
  timeout: 600_000,
}, () => {
  const walked = soakWalks({ steps: 300, seed: 20_261_121 });
  console.log(`walked: ${JSON.stringify(walked)}`);
  expect(walked.steps).toBeGreaterThanOrEqual(300);
  expect(Math.min(walked.killed, walked.rejected, walked.rolledBack)).toBeGreaterThan(0);
});
