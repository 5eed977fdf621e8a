import { defineConfig } from "vitest/config";

/** For `npm run mutate`, which names the tests of the mutated sources. */
export default defineConfig({
  test: {
    // Time counts for every mutant, so a slow test runs only where its file is named.
    include: (process.env.PUSHGATE_TESTS ?? "").split(" ").flatMap((path) => [path, `${path}/**/!(*.slow).test.ts`]),
    // It tests only bundles, which are made of sources without a mutant.
    exclude: ["**/process.test.ts"],
    setupFiles: ["test/vitest/fresh-modules.ts", "test/mutate/setup.ts"],
    // A process for each file would take three quarters of the time.
    isolate: false,
    fileParallelism: false,
    testTimeout: 15_000,
    hookTimeout: 30_000,
  },
  plugins: [
    {
      // A mutant is switched on in the test's process alone. A bundle of Stryker's copy would only be slow, and a test
      // that replaces words in the bundle's sources would not find them.
      name: "bundle the real sources",
      transform: (code, id) =>
        /\/test\/service\/(bundles|module-without)\.ts$/.test(id)
          ? code.replace("../../service/", "../../../../service/")
          : undefined,
    },
  ],
});
