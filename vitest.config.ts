import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // The host suite needs root, a kernel and minutes: `npm run test:host` runs it.
    exclude: ["test/host/**"],
    reporters: ["default", "./test/reporter.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
