/** Which attempt in the hosts' logs is which of the git host's record. Pure. */
import type { Attempt } from "./attempts.ts";

/** `time`: ISO 8601; absent where the record has none. `status`: 0 without an answer. */
export type Recorded = { readonly time?: string; readonly status: number };

/** Seconds between the git host's clock and the host's, with the time that a delivery takes. */
const tolerance = 60;

const statusOf = ({ nginx, receiver }: Attempt): number | undefined => {
  if (nginx !== undefined && nginx !== "none") return nginx.status;
  return receiver !== undefined && receiver !== "none" ? receiver.status : undefined;
};

/** In seconds; 0 where one of them has no time. */
const apart = (record: Recorded, { time }: Attempt): number => {
  const between = Math.abs(Date.parse(record.time ?? "") - Date.parse(time ?? "")) / 1000;
  return Number.isNaN(between) ? 0 : between;
};

/** Cloudflare answers by itself where the origin was late, so that the host's log has another status than the record. */
const isOther = ({ status }: Recorded): boolean => status === 0 || status === 502 || status === 504 || status >= 520;

/**
 * For each record of one delivery, the attempt that it is about, or undefined. First come pairs with the same status,
 * then pairs of a record that may be Cloudflare's own answer (isOther), whatever the attempt's status. In each step the
 * nearest in time goes first, at most `tolerance` apart; no attempt goes to two records.
 */
export function paired(records: readonly Recorded[], attempts: readonly Attempt[]): (Attempt | undefined)[] {
  const left = new Set(attempts.filter((one) => statusOf(one) !== undefined));
  const found: (Attempt | undefined)[] = records.map(() => undefined);
  const take = (fits: (record: Recorded, attempt: Attempt) => boolean): void => {
    const pairs = records
      .flatMap((record, i) => [...left].map((attempt) => ({ i, record, attempt, apart: apart(record, attempt) })))
      .filter(({ record, attempt, apart }) => apart <= tolerance && fits(record, attempt))
      .sort((a, b) => a.apart - b.apart);
    for (const { i, attempt } of pairs) {
      if (found[i] !== undefined || !left.has(attempt)) continue;
      found[i] = attempt;
      left.delete(attempt);
    }
  };
  take((record, attempt) => statusOf(attempt) === record.status);
  take((record) => isOther(record));
  return found;
}
