/**
 * What must be true of the live zone before anything is sent to it: all faults at once, each with its cure. Pure, save
 * for the last function, which tells a person.
 */
import * as pulumi from "@pulumi/pulumi";
import { hostnames } from "../../config/hostnames.ts";
import type { Plan, Settings } from "../../config/settings.ts";
import { configRules, originRules } from "../origin.ts";
import { customRules } from "../waf.ts";
import { EdgeError, type LiveZone } from "./live-zone.ts";
import { foreignRules, isOurs, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/** Ours, by phase. */
export const rulesOf = (settings: Settings): Record<PhaseName, Rule[]> => ({
  custom: customRules(settings),
  origin: originRules(settings),
  config: configRules(settings),
});

function planFaults({ edge: { plan } }: Settings, live: LiveZone): string[] {
  const bought = plan === "enterprise-bots" ? "enterprise" : plan;
  if (live.plan === bought) return [];
  const known: readonly string[] = ["free", "pro", "business", "enterprise"] satisfies Plan[];
  const cure = known.includes(live.plan) ? `plan: ${live.plan}` : "the plan whose limits it shares";
  return [
    `pushgate:edge.plan says ${plan}, but the zone ${live.name} is on ${live.plan}: what can be skipped and how many ` +
      `rules fit depends on it. Write ${cure}, or check that zone and token are the ones you mean`,
  ];
}

function botFaults({ edge }: Settings, live: LiveZone): string[] {
  if (live.botFightMode !== true || edge.botFightMode === "off") return [];
  return [
    `Bot Fight Mode is on in the zone ${live.name}, and on the free plan no rule can skip it: it would answer deliveries ` +
      "with 403, and no log of yours would show them. Write botFightMode: off into pushgate:edge to have it switched " +
      "off for the whole zone, or take the pro plan, where a rule skips it for hooks alone",
  ];
}

/** The provider has no field for some of what the API takes; an action that came back empty would be emptied. */
function lossFaults(live: LiveZone): string[] {
  const empty = ({ action, actionParameters }: Rule) =>
    ["route", "set_config", "skip"].includes(action) && actionParameters === undefined;
  return phaseNames.flatMap((name) =>
    foreignRules(live.phases[name].rules)
      .filter(empty)
      .map(
        ({ ref, action, description }) =>
          `${phases[name].name}: the zone's own rule "${description || ref}" (${action}) has settings that the provider ` +
          'does not know, such as phase: "current", and would lose them: write it with others, such as ruleset: "current"',
      ),
  );
}

export function edgeFaults(settings: Settings, live: LiveZone): string[] {
  // With nothing left to declare, nothing may stop the removal but a rule that it would damage.
  if (hostnames(settings).length === 0) return lossFaults(live);
  return [...planFaults(settings, live), ...botFaults(settings, live), ...lossFaults(live)];
}

/**
 * A phase takes one ruleset, so creating a second fails (20217). Only the state knows whether this stack holds the
 * existing one, and a program cannot ask it: where none of our rules is in yet, say how it is taken over.
 */
function adoptions(settings: Settings, live: LiveZone): string[] {
  const ours = rulesOf(settings);
  return phaseNames.flatMap((phase) => {
    const { id, rules } = live.phases[phase];
    if (id === undefined || rules.some(isOurs) || ours[phase].length === 0) return [];
    const { name } = phases[phase];
    return [
      `the zone ${live.name} already has a ruleset for ${name}, in which none is pushgate's, and a phase takes only one: ` +
        "where this stack has not adopted it, `up` fails with 20217, and npm run adopt takes it over first",
    ];
  });
}

/** Throws EdgeError; warns of what may have to be adopted. */
export function assertFits(settings: Settings, live: LiveZone): void {
  const faults = edgeFaults(settings, live);
  if (faults.length > 0) throw new EdgeError(faults);
  for (const notice of adoptions(settings, live)) void pulumi.log.warn(notice);
}
