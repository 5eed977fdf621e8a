import { tmpdir } from "node:os";
import { defineConfig } from "vitest/config";
import { keepInOneFolder } from "../vitest/memory.ts";
import { keepCompiled } from "./compile-cache.ts";
import { patience } from "./engine.ts";
import { findEngine, noEngine } from "./install-engine.ts";

keepCompiled();
keepInOneFolder(tmpdir());
if (!findEngine()) throw new Error(noEngine);

/** `npm run test:engine`: the whole program under the real engine, against the fake Cloudflare. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/engine/*.test.ts"],
    reporters: ["default", "./test/vitest/reporter.ts"],
    // Each file is one engine run after another, so two files keep two cores busy.
    maxWorkers: 2,
    testTimeout: patience,
    hookTimeout: patience,
  },
});
