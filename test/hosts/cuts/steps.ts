/** The runs with power cuts: each kind of work with all steps, and then without one of them (test/cuts/durable-steps.ts). */
import { type Step, steps, type Work } from "../../cuts/durable-steps.ts";
import { random } from "../../fixtures.ts";
import { cutsInApplies } from "./apply.ts";
import { cutsInPush, cutsInRollback } from "./build.ts";
import { cutsAfterDeliveries } from "./delivery.ts";
import type { Cuts, Terms } from "./disk.ts";

const works: Readonly<Record<Work, (terms: Terms, step?: Step) => Promise<Cuts>>> = {
  ...{ delivery: cutsAfterDeliveries, push: cutsInPush, rollback: cutsInRollback },
  ...cutsInApplies,
};

export type CutRun = { readonly name: string; readonly work: () => Promise<unknown> };

const whole = (Object.keys(works) as Work[]).flatMap((name) =>
  (["nothing", "names"] as const).map(
    (unsynced): CutRun => ({
      name: `power cuts (${name}, with ${unsynced} of what was not synced)`,
      async work() {
        const { faults, ...counts } = await works[name]({ unsynced });
        if (faults.length > 0) throw new Error(faults.join("; "));
        return counts;
      },
    }),
  ),
);

const removals = steps.flatMap((step): CutRun[] => {
  if (!("work" in step)) return [];
  const { file, words, work, unsynced, lost } = step;
  return [
    {
      name: `power cuts (${work}) without ${words.trim()} of ${file}`,
      async work() {
        const { faults, cuts } = await works[work]({ unsynced, until: lost }, step);
        if (!faults.some((fault) => lost.test(fault)))
          throw new Error(`${cuts} cuts did not show ${lost}, so the step protects nothing: ${faults.join("; ")}`);
        return faults;
      },
    },
  ];
});

/** All of them in the order of the seed. */
export function cutRuns(seed: number): readonly CutRun[] {
  const next = random(seed);
  const ranked = [...whole, ...removals].map((run) => ({ run, rank: next() }));
  return ranked.sort((a, b) => a.rank - b.rank).map(({ run }) => run);
}
