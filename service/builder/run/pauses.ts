/** How long the builder pauses after a failed run: longer with each, also over restarts of the builder. */
import type { BuilderSettings } from "../settings.ts";
import type { Failing } from "./status.ts";

/**
 * Milliseconds. The first pause doubles up to `rests`, the longest that a builder waits for; then it ends, and the next
 * one starts with a new marker, which the timer of site.reconcileMinutes makes after `longest`. Not even a new marker makes
 * a pause shorter than `least`.
 */
export type Pauses = {
  readonly first: number;
  readonly rests: number;
  readonly longest: number;
  readonly least: number;
};

export const pausesOf = ({ reconcileMinutes }: Pick<BuilderSettings, "reconcileMinutes">): Pauses => ({
  first: 5_000,
  rests: 45_000,
  longest: reconcileMinutes * 60_000,
  least: 2_000,
});

export function stillFailing(before: Failing | undefined, { first, rests, longest }: Pauses): Failing {
  const attempts = (before?.attempts ?? 0) + 1;
  const pause = first * 2 ** (attempts - 1);
  const next = Date.now() + (pause <= rests ? pause : longest);
  return { since: before?.since ?? new Date().toISOString(), attempts, next: new Date(next).toISOString() };
}
