/**
 * What the receiver answered since its start, counted from the journal's entries. A label is a configured hook or a word
 * of `reasons`: the text of an entry's reason can hold what a sender wrote, and would be a new series for each sender.
 */
import type { Metric, Sample } from "./exposition.ts";

/** The word of each status that is no 2xx. 499 and 0 are no HTTP statuses: the receiver's journal has them. */
const reasons: Readonly<Record<number, string>> = {
  0: "connections",
  400: "payload",
  401: "signature",
  404: "path",
  405: "method",
  408: "slow",
  413: "size",
  415: "content_type",
  429: "limit",
  431: "headers",
  499: "sender_left",
  500: "error",
  503: "spool",
};
const otherReason = "other";

type Answered = { readonly hook: string | null; readonly status: number };

export function createAnswers(hooks: readonly string[]) {
  const perHook = () => new Map(hooks.map((hook) => [hook, 0]));
  const accepted = perHook();
  const ignored = perHook();
  const words = [...Object.values(reasons), otherReason];
  // null: before the hook was known. All are there from the start, because a rate needs the 0 before the first.
  const rejected = new Map<string | null, Map<string, number>>(
    [...hooks, null].map((hook) => [hook, new Map(words.map((word) => [word, 0]))]),
  );

  return {
    count({ hook, status }: Answered): void {
      if (status === 202) add(accepted, hook);
      else if (status === 200) add(ignored, hook);
      else add(rejected.get(hook), reasons[status] ?? otherReason);
    },
    metrics: (): readonly Metric[] => [
      {
        name: "pushgate_deliveries_accepted_total",
        type: "counter",
        help: "Deliveries that the receiver spooled (202).",
        samples: byHook(accepted),
      },
      {
        name: "pushgate_deliveries_ignored_total",
        type: "counter",
        help: "Signed deliveries that request no build, such as a ping or a push to another branch (200).",
        samples: byHook(ignored),
      },
      {
        name: "pushgate_requests_rejected_total",
        type: "counter",
        help: "Requests that the receiver rejected. Without a hook: those to no hook.",
        samples: [...rejected].flatMap(([hook, counts]) =>
          [...counts].map(([reason, count]): Sample => [{ ...(hook !== null && { hook }), reason }, count]),
        ),
      },
    ],
  };
}

/** Adds one to a count that exists; another key is no configured hook's. */
function add(counts: Map<string | null, number> | undefined, key: string | null): void {
  if (counts?.has(key)) counts.set(key, (counts.get(key) ?? 0) + 1);
}

const byHook = (counts: ReadonlyMap<string, number>): Sample[] => [...counts].map(([hook, count]) => [{ hook }, count]);
