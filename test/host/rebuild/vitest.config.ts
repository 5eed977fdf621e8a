import { defineConfig } from "vitest/config";

const suite = "test/host/rebuild";
const common = { testTimeout: 180_000, hookTimeout: 300_000 } as const;

/**
 * What measures time and load wants the machine for itself, and the lab's in-house service has one address, which
 * hostile.test.ts has meanwhile; the others wait for pauses and debounces, not for a core.
 */
const alone = [`${suite}/measure.test.ts`, `${suite}/units.test.ts`];

export default defineConfig({
  test: {
    root: new URL("../../..", import.meta.url).pathname,
    reporters: ["verbose", "./test/reporter.ts"],
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...common,
          name: "rebuild",
          include: [`${suite}/*.test.ts`],
          exclude: alone,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...common,
          name: "alone",
          include: alone,
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
