import { defineConfig } from "vitest/config";

const suite = "test/host/suite";
const common = { testTimeout: 120_000, hookTimeout: 240_000 } as const;

/**
 * What measures time or load wants the machine for itself, and what searches every process for a secret wants nobody
 * else's engine beside it; the others wait for their hosts more than for a core.
 */
const alone = [`${suite}/load.test.ts`, `${suite}/secrets.test.ts`, `${suite}/up.test.ts`];

export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    reporters: ["verbose", "./test/reporter.ts"],
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...common,
          name: "together",
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
