/**
 * What a plan holds, and whether ours and the zone's own fit into it: pure, and asked before anything is sent, since
 * the API refuses a whole ruleset for its last rule, in the middle of an `up`.
 */
import type { Plan } from "../../config/settings.ts";
import { type PhaseName, phases, type Rule } from "./phase.ts";

type PerPlan = Readonly<Record<Plan, number>>;

const perPlan = (free: number, pro: number, business: number, enterprise: number): PerPlan => ({
  free,
  pro,
  business,
  enterprise,
  "enterprise-bots": enterprise,
});

/**
 * Rules a zone may have in a phase, disabled ones included. Sources, read 2026-10-30:
 * developers.cloudflare.com/waf/custom-rules, /rules/origin-rules (an older page says 125 for Enterprise),
 * /rules/configuration-rules.
 */
export const ruleLimits: Readonly<Record<PhaseName, PerPlan>> = {
  custom: perPlan(5, 20, 100, 1_000),
  origin: perPlan(10, 25, 50, 300),
  config: perPlan(10, 25, 50, 300),
};

/** Characters of one expression, on every plan. */
export const longestExpression = 4_096;

const quoted = (rules: readonly Rule[]): string =>
  rules.map(({ description, ref }) => `"${description || ref}"`).join(", ");

/** One sentence a fault: what does not fit, by how much, and what would. */
export function quotaFaults(
  plan: Plan,
  phase: PhaseName,
  ours: readonly Rule[],
  foreign: readonly Rule[],
  /** What makes a long expression long, in words; the caller knows what it was built from. */
  because?: (rule: Rule) => string,
): string[] {
  const faults: string[] = [];
  const [limit, total] = [ruleLimits[phase][plan], ours.length + foreign.length];
  if (ours.length > 0 && total > limit) {
    const larger = (Object.keys(ruleLimits[phase]) as Plan[]).find((other) => ruleLimits[phase][other] >= total);
    const cures = [
      foreign.length > 0 && limit >= ours.length && `remove ${total - limit} of the zone's own`,
      phase === "origin" && ours.length > 1 && "give the hosts the same originPort, which takes one rule",
      larger !== undefined && `take the ${larger} plan, which holds ${ruleLimits[phase][larger]}`,
    ].filter((cure) => cure !== false);
    const own = foreign.length === 0 ? "" : ` and the zone's own ${foreign.length} (${quoted(foreign)})`;
    faults.push(
      `${phases[phase].name}: pushgate's ${ours.length}${own} make ${total}, and the ${plan} plan holds ${limit}: ` +
        cures.join(", or "),
    );
  }
  for (const rule of ours) {
    const over = rule.expression.length - longestExpression;
    if (over <= 0) continue;
    const why = because?.(rule);
    faults.push(
      `${phases[phase].name}: the expression of ${rule.ref} is ${rule.expression.length} characters long, ${over} more ` +
        `than the edge takes${why === undefined ? "" : `: ${why}`}`,
    );
  }
  return faults;
}
