/**
 * The lines of one delivery in a host's logs -> evidence of each time that the git host sent it, and which of these
 * attempts an entry of the git host's delivery history is about. Pure.
 */
import { printable } from "../../service/printable.ts";
import type { Evidence, NginxLine } from "./evidence.ts";

type Line = { readonly time: string; readonly source: string; readonly text: string };

/** The object of a line that is about this delivery; other lines may quote the delivery's id. */
function entryOf(delivery: string, { text }: Line): Record<string, unknown> | undefined {
  try {
    const found = Object(JSON.parse(text)) as Record<string, unknown>;
    return found.delivery === delivery ? found : undefined;
  } catch {
    return undefined;
  }
}

/** JSON can write a control character as an escape. */
const text = (value: unknown): string => (typeof value === "string" ? printable(value) : "");

/**
 * Without a line in either log there is one attempt, which reached neither. nginx logs each request, and the receiver
 * those that it got. Two lines are of one request if their client address is the same, and the receiver's status is
 * nginx's `up_status`, or 499 while nginx's own status is another.
 */
export function attempts(delivery: string, lines: readonly Line[]): Evidence[] {
  const of = (source: string) =>
    lines.flatMap((line) => {
      const object = line.source === source ? entryOf(delivery, line) : undefined;
      return object === undefined ? [] : [{ object, about: { time: line.time, hook: text(object.hook) } }];
    });
  const receiver = of("receiver").map(({ object, about }) => {
    const { status, reason, source } = object;
    const overBudget = object.overBudget === true && ({ overBudget: true } as const);
    const line = { status: Number(status), reason: text(reason), source: text(source) || null, ...overBudget };
    return { ...about, receiver: line };
  });
  const both = of("nginx").map(({ object, about }): Evidence => {
    const texts = ["up_status", "up_connect", "in_ranges", "limit", "client"].map((key) => [key, text(object[key])]);
    const nginx = { status: Number(object.status), ...Object.fromEntries(texts) } as NginxLine;
    const at = receiver.findIndex(
      ({ receiver: { status, source } }) =>
        source === nginx.client && (status === Number(nginx.up_status) || (status === 499 && nginx.status !== status)),
    );
    const [own] = at < 0 ? [] : receiver.splice(at, 1);
    return { ...about, nginx, receiver: own?.receiver ?? "none" };
  });
  const all = [...both, ...receiver];
  return all.length > 0 ? all : [{ nginx: "none", receiver: "none" }];
}

/** Removes "none" of a log that may lack lines, because it was not searched whole or its file system was full. */
export function doubted(attempt: Evidence, doubtful: Readonly<Record<"nginx" | "receiver", boolean>>): Evidence {
  const isKept = ([key, value]: [string, unknown]) => !(value === "none" && doubtful[key as keyof typeof doubtful]);
  return Object.fromEntries(Object.entries(attempt).filter(isKept));
}

/** `time`: ISO 8601; absent where the history has none. `status`: 0 without an answer. */
export type Entry = { readonly time?: string; readonly status: number };

/** Seconds between the git host's clock and the host's, with the time that a delivery takes. */
const tolerance = 60;

const statusOf = ({ nginx, receiver }: Evidence): number | undefined =>
  [nginx, receiver].find((line) => typeof line === "object")?.status;

/** In seconds; 0 where one of them has no time. */
const apart = (entry: Entry, { time }: Evidence): number =>
  Math.abs(Date.parse(entry.time ?? "") - Date.parse(time ?? "")) / 1000 || 0;

/** Cloudflare answers by itself where the origin was late: the host's log then has another status than the history. */
const isOther = ({ status }: Entry): boolean => status === 0 || status === 502 || status === 504 || status >= 520;

/**
 * For each entry of one delivery, the attempt that it is about, or undefined. First come pairs with the same status,
 * then pairs of an entry that may be Cloudflare's own answer (isOther), whatever the attempt's status. In each step the
 * pair that is nearest in time goes first, at most `tolerance` apart; no attempt goes to two entries.
 */
export function paired(entries: readonly Entry[], attempts: readonly Evidence[]): (Evidence | undefined)[] {
  const left = new Set(attempts.filter((one) => statusOf(one) !== undefined));
  const found: (Evidence | undefined)[] = entries.map(() => undefined);
  for (const fits of [(entry: Entry, one: Evidence) => statusOf(one) === entry.status, isOther]) {
    const pairs = entries
      .flatMap((entry, i) => [...left].map((attempt) => ({ i, entry, attempt, apart: apart(entry, attempt) })))
      .filter(({ entry, attempt, apart }) => apart <= tolerance && fits(entry, attempt))
      .sort((a, b) => a.apart - b.apart);
    for (const { i, attempt } of pairs) if (found[i] === undefined && left.delete(attempt)) found[i] = attempt;
  }
  return found;
}
