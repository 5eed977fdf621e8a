/**
 * What became of a delivery, from what was seen of it. Each source that was looked at rules outcomes out, and none brings
 * one in: with less evidence more outcomes are left, and the true one is always among them. Pure.
 */
import type { Evidence } from "./evidence.ts";
import { type Outcome, outcomes } from "./outcomes.ts";

export type Verdict = {
  /** certain: one outcome is left. likely: several of one layer. unknown: several layers, or none fits. */
  readonly certainty: "certain" | "likely" | "unknown";
  /** What the evidence does not rule out, in the order of the path. */
  readonly outcomes: readonly Outcome[];
};

const fits = ({ answer, nginx, receiver }: Outcome, seen: Evidence): boolean =>
  (seen.answer === undefined || answer(seen.answer)) &&
  [
    [nginx, seen.nginx],
    [receiver, seen.receiver],
  ].every(([leaves, line]) => {
    if (line === undefined) return true;
    if (leaves === "none" || line === "none") return leaves === line;
    return (leaves as (line: unknown) => boolean)(line);
  });

export function verdict(seen: Evidence): Verdict {
  const left = outcomes.filter((outcome) => fits(outcome, seen));
  if (left.length === 1) return { certainty: "certain", outcomes: left };
  const layers = new Set(left.map(({ layer }) => layer));
  return { certainty: layers.size === 1 ? "likely" : "unknown", outcomes: left };
}
