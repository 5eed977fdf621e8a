/** The runs with power cuts: each kind of work with all steps, and then without one of them (test/cuts/durable-steps.ts). */
import { type Step, steps, type Work, withoutStep } from "../../cuts/durable-steps.ts";
import { random } from "../../fixtures.ts";
import type { Without } from "../../service/builder/harness.ts";
import { cutsInArrival, cutsInFailure, cutsInFirstArrival, cutsInRemoval } from "./apply.ts";
import { cutsInPush, cutsInRollback } from "./build.ts";
import { cutsAfterDeliveries } from "./delivery.ts";
import type { Cuts, Terms } from "./disk.ts";

const builders = (step?: Step): Without[] =>
  step ? [[step.file.replace("service/builder/", ""), step.words, step.instead]] : [];
const scripts = (step?: Step) => step && ([step.words, step.instead] as const);

const works: Readonly<Record<Work, (terms: Terms, step?: Step) => Promise<Cuts>>> = {
  delivery: (terms, step) =>
    cutsAfterDeliveries(terms, (file, text) => (`service/${file}` === step?.file ? withoutStep(step, text) : text)),
  push: (terms, step) => cutsInPush(terms, ...builders(step)),
  rollback: (terms, step) => cutsInRollback(terms, ...builders(step)),
  "first arrival": (terms, step) => cutsInFirstArrival(terms, scripts(step)),
  arrival: (terms, step) => cutsInArrival(terms, scripts(step)),
  failure: (terms, step) => cutsInFailure(terms, scripts(step)),
  removal: (terms, step) => cutsInRemoval(terms, scripts(step)),
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
