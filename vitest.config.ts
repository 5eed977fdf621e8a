import { defineConfig } from "vitest/config";
import { keepCompiled } from "./test/engine/compile-cache.ts";
import { keepInOneFolder } from "./test/vitest/memory.ts";

keepCompiled();
keepInOneFolder();

export default defineConfig({
  test: {
    projects: [
      // `npm test`. Suites on hosts and under the engine have commands of their own.
      {
        extends: true,
        test: {
          name: "quick",
          include: ["test/**/*.test.ts"],
          exclude: ["test/**/*.slow.test.ts", "test/hosts/**", "test/engine/**"],
          isolate: false,
          setupFiles: ["./test/vitest/fresh-modules.ts"],
        },
      },
      // `npm run test:slow`: what only time shows.
      { extends: true, test: { name: "slow", include: ["test/**/*.slow.test.ts"] } },
    ],
    reporters: ["default", "./test/vitest/reporter.ts"],
    // Many tests wait for a process or a timeout and not for a core. The default of one worker on two cores takes twice
    // as long.
    maxWorkers: 6,
    // Vitest's default of one second is short for a process on a busy computer.
    expect: { poll: { timeout: 30_000 } },
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
