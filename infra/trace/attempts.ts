/** The lines of one delivery in a host's logs -> its attempts, and which of them an entry of the history is about. Pure. */
import { printable } from "../../service/printable.ts";
import { tried } from "../../service/tried.ts";
import type { Evidence, NginxLine } from "./evidence.ts";

type Line = { readonly time: string; readonly source: string; readonly text: string };

/** The JSON object of a line; an empty one where it holds none. */
export const objectIn = (text: string): Record<string, unknown> => Object(tried(() => JSON.parse(text)));

/** JSON can write a control character as an escape. */
const text = (value: unknown): string => (typeof value === "string" ? printable(value) : "");

/**
 * Without a line in either log there is one attempt, which reached neither. nginx logs each request, and the receiver
 * those that it got. Two lines are of one request if their client address is the same, and the receiver's status is
 * nginx's `up_status`, or 499 while nginx's own status is another.
 */
export function attempts(delivery: string, lines: readonly Line[]): Evidence[] {
  // Other lines may quote the delivery's id.
  const own = lines
    .map((line) => ({ ...line, object: objectIn(line.text) }))
    .filter(({ object }) => object.delivery === delivery)
    .map(({ source, time, object }) => ({ source, object, about: { time, hook: text(object.hook) } }));
  const receiver = own.flatMap(({ source, object, about }) => {
    const overBudget = object.overBudget === true && ({ overBudget: true } as const);
    const said = { status: Number(object.status), reason: text(object.reason), source: text(object.source) || null };
    return source === "receiver" ? [{ ...about, receiver: { ...said, ...overBudget } }] : [];
  });
  const ofNginx = own.filter(({ source }) => source === "nginx");
  const both = ofNginx.map(({ object, about }): Evidence => {
    const texts = ["up_status", "up_connect", "in_ranges", "limit", "client"].map((key) => [key, text(object[key])]);
    const nginx = { status: Number(object.status), ...Object.fromEntries(texts) } as NginxLine;
    const at = receiver.findIndex(
      ({ receiver: { status, source } }) =>
        source === nginx.client && (status === Number(nginx.up_status) || (status === 499 && nginx.status !== status)),
    );
    const [same] = at < 0 ? [] : receiver.splice(at, 1);
    return { ...about, nginx, receiver: same?.receiver ?? "none" };
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
type Entry = { readonly time?: string; readonly status: number };

/** Seconds between the git host's clock and the host's, with the time that a delivery takes. */
const tolerance = 60;

/** In seconds; 0 where one of them has no time. */
const apart = (entry: Entry, { time }: Evidence): number =>
  Math.abs(Date.parse(entry.time ?? "") - Date.parse(time ?? "")) / 1000 || 0;

/** Cloudflare answers by itself where the origin was late: the host's log then has another status than the history. */
const isOther = ({ status }: Entry): boolean => status === 0 || status === 502 || status === 504 || status >= 520;

/**
 * For each entry of one delivery, the attempt that it is about, or undefined: at most `tolerance` apart, with the same
 * status, else with any where Cloudflare may have answered itself. Of several the nearest in time goes first.
 */
export function paired(entries: readonly Entry[], attempts: readonly Evidence[]): (Evidence | undefined)[] {
  const pairs = entries.flatMap((entry, i) =>
    attempts.flatMap((attempt) => {
      const line = [attempt.nginx, attempt.receiver].find((one) => typeof one === "object");
      const isSame = line?.status === entry.status;
      const fits = line !== undefined && (isSame || isOther(entry)) && apart(entry, attempt) <= tolerance;
      return fits ? [{ i, attempt, isSame, apart: apart(entry, attempt) }] : [];
    }),
  );
  const found: (Evidence | undefined)[] = entries.map(() => undefined);
  const left = new Set(attempts);
  for (const { i, attempt } of pairs.sort((a, b) => Number(b.isSame) - Number(a.isSame) || a.apart - b.apart))
    if (found[i] === undefined && left.delete(attempt)) found[i] = attempt;
  return found;
}
