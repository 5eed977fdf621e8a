/** The one place that declares a ruleset. What keeps the zone's own rules in it: lock.ts. */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import type { LiveZone } from "./live-zone.ts";
import type { Keeper } from "./lock.ts";
import { merged, type PhaseName, phases, type Rule } from "./phase.ts";

/** undefined where there is nothing to hold: the ruleset goes, and the zone is as it was. */
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
  // Without rules of ours it is its owner's again: whatever makes the state forget it leaves it in the zone.
  const kept =
    ours.length > 0 ? { hooks: { ...hooks, beforeDelete: [beforeDelete] } } : { hooks, retainOnDelete: true };
  return new cloudflare.Ruleset(phases[phase].name, args, { ...opts, ...kept });
}
