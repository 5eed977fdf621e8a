import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/host/suite/*.test.ts"],
    // One lab, two cores: hosts of two files at once would only slow each other down.
    fileParallelism: false,
    reporters: ["verbose", "./test/reporter.ts"],
    testTimeout: 120_000,
    hookTimeout: 240_000,
  },
});
