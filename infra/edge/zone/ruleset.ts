/** The one place that declares a ruleset: pushgate's rules of a phase, and the zone's own. */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import type { LiveZone } from "./live-zone.ts";
import type { Keeper } from "./lock.ts";
import { merged, type PhaseName, phases, type Rule } from "./phase.ts";

/** undefined without rules: the ruleset is deleted, and the zone is as it was before pushgate. */
export function ruleset(
  zone: LiveZone,
  phase: PhaseName,
  ours: readonly Rule[],
  { beforeDelete, beforeUpdate }: Keeper,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.Ruleset | undefined {
  const { name, description, rules: live } = zone.phases[phase];
  const rules = merged(phase, ours, live);
  if (rules.length === 0) return undefined;
  const args = { zoneId: zone.id, kind: "zone", phase: phases[phase].phase, name, description, rules: rules as never };
  const hooks = beforeUpdate(phase);
  // Without pushgate's rules, the ruleset is only forgotten when it leaves the state.
  const kept =
    ours.length > 0 ? { hooks: { ...hooks, beforeDelete: [beforeDelete] } } : { hooks, retainOnDelete: true };
  return new cloudflare.Ruleset(phases[phase].name, args, { ...opts, ...kept });
}
