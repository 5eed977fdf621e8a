/** The vitest configuration of all suites on hosts: files run in parallel, except those that measure time or load. */
import { basename } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import type { Release } from "./lab/image.ts";
import { release, runsEachFile } from "./release.ts";

export type HostSuite = {
  /** From the repository's root. */
  readonly folder: string;
  /** Names without ".test.ts" of files that measure time or load; they run one after another when the rest is done. */
  readonly alone?: readonly string[];
  /** The files to start first, in this order; all other files follow. */
  readonly order?: readonly string[];
  /** By release, the files that it alone runs, because they depend little on it. A named release runs all files. */
  readonly only?: Readonly<Partial<Record<Release, readonly string[]>>>;
  /** Time limits in seconds of one test and of one vitest hook: they end what hangs, also on a busy computer. */
  readonly patience: readonly [test: number, hook: number];
};

/** A stable sort: files without a rank keep vitest's order by project and duration. */
const inOrder = (order: readonly string[]) =>
  class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const rank = ({ moduleId }: TestSpecification): number => {
        const at = order.indexOf(basename(moduleId, ".test.ts"));
        return at < 0 ? order.length : at;
      };
      return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
    }
  };

export const hostSuite = ({ folder, alone = [], order = [], only = {}, patience: [test, hook] }: HostSuite) => {
  const paths = (names: readonly string[]) => names.map((name) => `${folder}/${name}.test.ts`);
  const others = runsEachFile ? [] : Object.entries(only).filter(([of]) => of !== release);
  const elsewhere = paths(others.flatMap(([, names]) => names));
  const apart = paths(alone).filter((path) => !elsewhere.includes(path));
  const common = { testTimeout: test * 1000, hookTimeout: hook * 1000 };
  const together = { name: "together", include: [`${folder}/*.test.ts`], exclude: [...apart, ...elsewhere] };
  const single = { name: "alone", include: apart, maxWorkers: 1, fileParallelism: false };
  return defineConfig({
    test: {
      root: new URL("../..", import.meta.url).pathname,
      reporters: ["verbose", "./test/vitest/reporter.ts"],
      sequence: { sequencer: inOrder(order) },
      maxWorkers: 4,
      projects: [
        { test: { ...common, ...together, sequence: { groupOrder: 0 } } },
        ...(apart.length > 0 ? [{ test: { ...common, ...single, sequence: { groupOrder: 1 } } }] : []),
      ],
    },
  });
};
