/**
 * What became of a delivery. Starts from all outcomes. Each source that was read removes those that it contradicts; no
 * source adds one. Pure.
 */
import { fitsAnswer } from "./answers.ts";
import type { Attempt } from "./attempts.ts";
import { type Cause, causes } from "./causes.ts";
import { rejects } from "./cloudflare.ts";
import type { Evidence, SecurityEvent } from "./evidence.ts";
import { type Outcome, outcomes } from "./outcomes.ts";

export type Verdict = {
  /** certain: one outcome is left. likely: several of one layer. unknown: several layers, or none fits. */
  readonly certainty: "certain" | "likely" | "unknown";
  /** What the evidence does not rule out, in the order of the path; the fix names the rule, where one is known. */
  readonly outcomes: readonly Pick<Outcome, "name" | "layer" | "what" | "fix">[];
  /** What is broken now and may explain one of them. */
  readonly causes: readonly Cause[];
};

/** A rejecting event names the product that decided. Without one, no outcome is ruled out: events are sampled. */
function fitsEvents({ event }: Outcome, events: readonly SecurityEvent[]): boolean {
  const decided = events.filter(rejects);
  return decided.length === 0 || (event !== undefined && decided.some(event));
}

/** Whether what a source shows is what an outcome leaves there: a line, or none. */
const leaves = <Line>(left: "none" | ((line: Line) => boolean), line: Line | "none" | undefined): boolean =>
  line === undefined || (left === "none" || line === "none" ? left === line : left(line));

const fits = (outcome: Outcome, seen: Evidence): boolean =>
  (seen.history === undefined || outcome.history === seen.history) &&
  (seen.answer === undefined || fitsAnswer(outcome.answer, seen.answer)) &&
  fitsEvents(outcome, seen.cloudflare ?? []) &&
  leaves(outcome.nginx, seen.nginx) &&
  ((outcome.unlogged && seen.receiver === "none") || leaves(outcome.receiver, seen.receiver));

const owners = { pushgate: "pushgate's own rule", zone: "the zone's own rule" } as const;

/** A rule as a person finds it in the dashboard. */
export const ruleText = ({ owner, rule, description }: SecurityEvent): string =>
  [owner === undefined ? "the rule" : owners[owner], ...(description === "" ? [] : [`"${description}"`]), rule]
    .filter((part) => part !== "")
    .join(" ");

/** `origin`: the host's address and port. */
export function verdict(seen: Attempt, origin = "the host's origin port"): Verdict {
  const rule = seen.cloudflare?.find(rejects);
  const named = (text: string): string =>
    text.replace("{origin}", origin).replace("{rule}", () => (rule === undefined ? "that rule" : ruleText(rule)));
  const fitting = outcomes.filter((outcome) => fits(outcome, seen));
  const left = fitting.map(({ name, layer, what, fix }) => ({
    ...{ name, layer, what: named(what) },
    ...(fix !== undefined && { fix: named(fix) }),
  }));
  const explained = { outcomes: left, causes: fitting.flatMap((outcome) => causes(outcome, seen)) };
  if (left.length === 1) return { certainty: "certain", ...explained };
  const layers = new Set(left.map(({ layer }) => layer));
  return { certainty: layers.size === 1 ? "likely" : "unknown", ...explained };
}
