import { defineConfig } from "vitest/config";
import { long } from "./test/engine/vitest.config.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // The host suites need root, a kernel and minutes: `npm run test:host`. The whole program under the engine, drift
    // after drift, takes minutes too: `npm run test:engine`.
    exclude: ["test/hosts/**", ...long],
    reporters: ["default", "./test/reporter.ts"],
    // Many tests wait for a process, a probe or a time-out rather than for a core; the default of one worker on two
    // cores takes twice as long.
    maxWorkers: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
