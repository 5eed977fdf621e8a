/** Pairs each entry of the git host's delivery history with an attempt in the hosts' logs. Pure. */
import type { Attempt } from "./attempts.ts";

/** `time`: ISO 8601; absent where the history has none. `status`: 0 without an answer. */
export type Entry = { readonly time?: string; readonly status: number };

/** Seconds between the git host's clock and the host's, with the time that a delivery takes. */
const tolerance = 60;

const statusOf = ({ nginx, receiver }: Attempt): number | undefined => {
  if (nginx !== undefined && nginx !== "none") return nginx.status;
  return receiver !== undefined && receiver !== "none" ? receiver.status : undefined;
};

/** In seconds; 0 where one of them has no time. */
const apart = (entry: Entry, { time }: Attempt): number => {
  const between = Math.abs(Date.parse(entry.time ?? "") - Date.parse(time ?? "")) / 1000;
  return Number.isNaN(between) ? 0 : between;
};

/** Cloudflare answers by itself where the origin was late: the host's log then has another status than the history. */
const isOther = ({ status }: Entry): boolean => status === 0 || status === 502 || status === 504 || status >= 520;

/**
 * For each entry of one delivery, the attempt that it is about, or undefined. First come pairs with the same status,
 * then pairs of an entry that may be Cloudflare's own answer (isOther), whatever the attempt's status. In each step the
 * pair that is nearest in time goes first, at most `tolerance` apart; no attempt goes to two entries.
 */
export function paired(entries: readonly Entry[], attempts: readonly Attempt[]): (Attempt | undefined)[] {
  const left = new Set(attempts.filter((one) => statusOf(one) !== undefined));
  const found: (Attempt | undefined)[] = entries.map(() => undefined);
  const take = (fits: (entry: Entry, attempt: Attempt) => boolean): void => {
    const pairs = entries
      .flatMap((entry, i) => [...left].map((attempt) => ({ i, entry, attempt, apart: apart(entry, attempt) })))
      .filter(({ entry, attempt, apart }) => apart <= tolerance && fits(entry, attempt))
      .sort((a, b) => a.apart - b.apart);
    for (const { i, attempt } of pairs) {
      if (found[i] !== undefined || !left.has(attempt)) continue;
      found[i] = attempt;
      left.delete(attempt);
    }
  };
  take((entry, attempt) => statusOf(attempt) === entry.status);
  take((entry) => isOther(entry));
  return found;
}
