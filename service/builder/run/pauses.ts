/** How long the builder pauses after a failed run, also over restarts of the builder. */
import type { BuilderSettings } from "../settings.ts";

/** `next`: when the next run starts at the latest. */
export type Failing = { readonly since: string; readonly attempts: number; readonly next: string };

export type Pauses = ReturnType<typeof pausesOf>;

/** Milliseconds. A builder waits no longer than `rests` (decision 031), and no marker shortens a pause below `least`. */
export const pausesOf = ({ reconcileMinutes }: Pick<BuilderSettings, "reconcileMinutes">) => ({
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
