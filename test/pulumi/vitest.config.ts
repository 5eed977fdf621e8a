import { defineConfig } from "vitest/config";

/** `npm run test:engine`: the whole program under the real engine, against the stand-in edge. Minutes, not seconds. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/pulumi/{adopt,edge-drift,lock,refused,token}.test.ts"],
    reporters: ["default", "./test/reporter.ts"],
    // Each is one engine run after another; two side by side keep two cores busy.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
