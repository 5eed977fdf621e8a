/** What became of a delivery: of all outcomes, each source that was read removes those that it contradicts. Pure. */
import { causes } from "./causes.ts";
import type { Answer, Cause, Evidence, NginxLine, ReceiverLine, SecurityEvent } from "./evidence.ts";
import { actions, blocked, type Outcome, outcomes, type Shape } from "./outcomes.ts";

export type Verdict = {
  /** certain: one outcome is left. likely: several of one layer. unknown: several layers, or none fits. */
  readonly certainty: "certain" | "likely" | "unknown";
  /** What the evidence does not rule out, in the order of the path; the fix names the rule, where one is known. */
  readonly outcomes: readonly Pick<Outcome, "name" | "layer" | "what" | "fix">[];
  readonly causes: readonly Cause[];
};
export type Traced = Evidence & Verdict;

/**
 * The number of Cloudflare's page, such as "error code: 1010"; undefined where the body is not known or has none. 500 counts
 * after "code" alone: a Worker's own page may have the title "Error 500".
 */
const pageOf = ({ body = "" }: Answer): string | undefined =>
  /you have been blocked/i.test(body) ? blocked : /\berror (?:code:? ?)?(1\d{3}|(?<=code:? ?)500)\b/i.exec(body)?.[1];

function fitsAnswer({ by, status, challenge, page, text }: Shape, answer: Answer): boolean {
  const { headers, body, partial } = answer;
  const { "x-served-by": server, "cf-mitigated": mitigated } = headers;
  const isUnseen = (value: string | undefined): boolean => partial === true && value === undefined;
  if (!status.includes(answer.status) || !(isUnseen(server) || (server || undefined) === by)) return false;
  if (by !== undefined) return !mitigated && (text === undefined || body === undefined || body.includes(text));
  if (!isUnseen(mitigated) && Boolean(mitigated) !== (challenge === true)) return false;
  const found = pageOf(answer);
  return page === undefined || found === undefined || page.includes(found);
}

const rejects = ({ action }: SecurityEvent): boolean => Object.values(actions).flat().includes(action);

/** A rejecting event names the product that decided. Without one, no outcome is ruled out: events are sampled. */
function fitsEvents({ event: shape }: Outcome, events: readonly SecurityEvent[]): boolean {
  const decided = events.filter(rejects);
  if (decided.length === 0 || shape === undefined) return decided.length === 0;
  const { action, source, not = {} } = shape;
  return decided.some(
    (event) =>
      (action === undefined || actions[action].includes(event.action)) &&
      (source === undefined || source.includes(event.source)) &&
      !not.source?.includes(event.source) &&
      (not.rule === undefined || not.rule !== event.rule) &&
      (not.owner === undefined || not.owner !== event.owner),
  );
}

const isSet = (value: string): boolean => value !== "" && value !== "-";

function fitsNginx(shape: Exclude<Outcome["nginx"], "none">, line: NginxLine): boolean {
  const { status, came, in_ranges = line.in_ranges, limit = line.limit } = shape;
  const { up_status: up, up_connect } = line;
  const ways = {
    alone: !isSet(up),
    // `up_status` is then nginx's own 502 or 504.
    refused: isSet(up) && !isSet(up_connect),
    connected: isSet(up_connect),
    passed: isSet(up_connect) && up === `${line.status}`,
  };
  return status.includes(line.status) && ways[came] && in_ranges === line.in_ranges && limit === line.limit;
}

const fitsReceiver = (shape: Exclude<Outcome["receiver"], "none">, { status, overBudget }: ReceiverLine): boolean =>
  shape.status.includes(status) && (shape.overBudget ?? overBudget === true) === (overBudget === true);

/** Whether what a log shows is what an outcome leaves there: a line, or none. */
const leaves = <S, L>(left: S | "none", line: L | "none" | undefined, fits: (shape: S, line: L) => boolean): boolean =>
  line === undefined || (left === "none" || line === "none" ? left === line : fits(left, line));

const fits = (outcome: Outcome, { history, answer, cloudflare = [], nginx, receiver }: Evidence): boolean =>
  (history === undefined || outcome.history === history) &&
  (answer === undefined || outcome.answer.some((shape) => fitsAnswer(shape, answer))) &&
  fitsEvents(outcome, cloudflare) &&
  leaves(outcome.nginx, nginx, fitsNginx) &&
  ((outcome.unlogged && receiver === "none") || leaves(outcome.receiver, receiver, fitsReceiver));

const owners = { pushgate: "pushgate's own rule", zone: "the zone's own rule" } as const;

/** A rule as a person finds it in the dashboard. */
export const ruleText = ({ owner, rule, description }: SecurityEvent): string =>
  [owner ? owners[owner] : "the rule", description && `"${description}"`, rule].filter(Boolean).join(" ");

/** `origin`: the host's address and port. */
export function verdict(seen: Evidence, origin = "the host's origin port"): Verdict {
  const rule = seen.cloudflare?.find(rejects);
  const named = (text: string): string =>
    text.replace("{origin}", origin).replace("{rule}", () => (rule === undefined ? "that rule" : ruleText(rule)));
  const left = outcomes.filter((outcome) => fits(outcome, seen));
  const reason = typeof seen.receiver === "object" && seen.receiver.status !== 202 ? `: ${seen.receiver.reason}` : "";
  const layers = new Set(left.map(({ layer }) => layer));
  return {
    certainty: left.length === 1 ? "certain" : layers.size === 1 ? "likely" : "unknown",
    outcomes: left.map(({ name, layer, what, fix }) => ({
      ...{ name, layer, what: named(what) + reason.replace(/^: ignored|\.$/g, "") },
      ...(fix !== undefined && { fix: named(fix) }),
    })),
    causes: left.flatMap((outcome) => causes(outcome, seen)),
  };
}
