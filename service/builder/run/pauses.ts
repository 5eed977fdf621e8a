/** How long the builder pauses after a failed run: longer with each, also over restarts of the builder. */
import type { Failing } from "./status.ts";

/** Milliseconds. The first pause doubles up to the longest; not even a new marker makes it shorter than `least`. */
export type Pauses = { readonly first: number; readonly longest: number; readonly least: number };

export const pauses: Pauses = { first: 5_000, longest: 15 * 60_000, least: 2_000 };

export function stillFailing(before: Failing | undefined, { first, longest } = pauses): Failing {
  const attempts = (before?.attempts ?? 0) + 1;
  const next = Date.now() + Math.min(first * 2 ** (attempts - 1), longest);
  return { since: before?.since ?? new Date().toISOString(), attempts, next: new Date(next).toISOString() };
}
