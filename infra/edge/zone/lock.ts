/**
 * What stands between a write of ours and rules of the zone's owner. The API writes and deletes a ruleset whole and asks
 * for no condition, and what the program read at its start is seconds old by then; so the engine's hooks look once more
 * in the moment before, and refuse. docs/decisions/010 has the windows that are left.
 */
import { isDeepStrictEqual } from "node:util";
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import type { LiveZone } from "./live-zone.ts";
import { asInputs, foreignRules, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/**
 * The hook's name, and all that a person reads when `pulumi destroy` is refused: it does not run the program, and the
 * engine refuses it for a state that holds a delete hook, whatever else that state says.
 */
const leave = "leave by `state: absent` on every host and `pulumi up`, which takes only what is pushgate's";

export type Keeper = {
  /** For whatever may not go with rules in it that are not ours. */
  readonly beforeDelete: pulumi.ResourceHook;
  /** For a ruleset that carries the zone's own rules. */
  readonly beforeUpdate: (phase: PhaseName) => pulumi.ResourceHookBinding;
};

const quoted = (rules: readonly Rule[]): string =>
  rules.map(({ description, ref }) => `"${description || ref}"`).join(", ");

/** Throws where a ruleset that is to go has rules of the zone's own now, or nobody can tell. */
async function refuseToLose(rulesets: readonly { readonly zoneId: string; readonly id: string }[]): Promise<void> {
  const live = await Promise.all(rulesets.map((one) => cloudflare.getRuleset(one)));
  const lost = live.flatMap(({ rules }) => foreignRules(asInputs(rules ?? [])));
  if (lost.length > 0) throw new Error(`the zone's own rules would go, too: ${quoted(lost)}`);
}

/** Registered in every run: what has left the program keeps the hook's name, and is not deleted if nobody answers to it. */
export function keeper(zone: LiveZone): Keeper {
  const all = phaseNames.flatMap((name) => zone.phases[name].id ?? []).map((id) => ({ zoneId: zone.id, id }));
  const beforeDelete = new pulumi.ResourceHook(
    leave,
    // The lock has no id, and stands for all of them. A ruleset that another zone has from before is looked up there.
    ({ id, oldInputs }) => refuseToLose(id === "" ? all : [{ zoneId: oldInputs?.zoneId ?? zone.id, id }]),
    { onDryRun: true },
  );
  return { beforeDelete, beforeUpdate: (phase) => beforeUpdate(zone, phase) };
}

function beforeUpdate(zone: LiveZone, phase: PhaseName): pulumi.ResourceHookBinding {
  const { id, rules: carried } = zone.phases[phase];
  // Where there was none, it is created, which the API refuses if somebody else was faster.
  if (id === undefined) return {};
  const { name } = phases[phase];
  const hook = new pulumi.ResourceHook(`a last look at the ${name}`, async () => {
    const { rules = [] } = await cloudflare.getRuleset({ zoneId: zone.id, id });
    if (!isDeepStrictEqual(foreignRules(asInputs(rules)), foreignRules(carried)))
      throw new Error("the zone's own were changed while this ran. They were left alone: pulumi up again");
  });
  return { beforeUpdate: [hook] };
}

class Lock extends pulumi.ComponentResource {
  constructor(name: string, opts: pulumi.ComponentResourceOptions) {
    super("pushgate:edge:Lock", name, {}, opts);
  }
}

/**
 * A destroy works from the last resource to the first, and the rulesets stand behind the DNS records: those would be
 * gone, and with them every delivery, by the time it is refused. This one stands before them, is refused for any of the
 * rulesets, and is nothing else. `records`: what must not go before it; with them gone there is nothing left to lose.
 */
export function lock({ beforeDelete }: Keeper, records: readonly pulumi.Resource[]): pulumi.Resource {
  const hooks = records.length > 0 ? { beforeDelete: [beforeDelete] } : {};
  return new Lock("rules of the zone's own", { dependsOn: [...records], hooks });
}
