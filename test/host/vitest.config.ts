import { basename } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const suite = "test/host/suite";
const common = { testTimeout: 120_000, hookTimeout: 240_000 } as const;

/** What measures time or load wants the machine for itself; the others wait for their hosts more than for a core. */
const alone = [`${suite}/audit.test.ts`, `${suite}/load.test.ts`];

/**
 * Those that run together: the longest first, so that none is left to run by itself at the end; but of the files that
 * begin with a copy of the deployed machine one alone, as the others would wait for it while a core is free.
 */
const order = ["drift", "refusals", "neighbours", "hosts", "reboot", "up", "leave", "secrets", "matrix"];

class Ordered extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = order.indexOf(basename(moduleId, ".test.ts"));
      return at < 0 ? order.length : at;
    };
    // Stable: what is not named comes after what is, in vitest's own order of projects and durations.
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: Ordered },
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
