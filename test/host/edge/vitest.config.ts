import { defineConfig } from "vitest/config";

/** `npm run test:edge`: what the edge presents to a machine changes while deliveries go on. */
export default defineConfig({
  test: {
    root: new URL("../../..", import.meta.url).pathname,
    include: ["test/host/edge/*.test.ts"],
    reporters: ["verbose", "./test/reporter.ts"],
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 240_000,
  },
});
