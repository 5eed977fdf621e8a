import { defineConfig } from "vitest/config";

/** What takes minutes, not seconds: `npm test` leaves it out, and has the program's first runs alone. */
export const long = ["test/engine/{adopt,edge,edge-drift,engine,lock,refused,token,upgrade}.test.ts"];

/** `npm run test:engine`: the whole program under the real engine, against the stand-in edge. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: long,
    reporters: ["default", "./test/reporter.ts"],
    // Each is one engine run after another; two side by side keep two cores busy.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
