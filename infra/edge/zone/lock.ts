/**
 * What stands between a write of ours and rules of the zone's owner. The API writes and deletes a ruleset whole and asks
 * for no condition, and what the program read at its start is seconds old by then; so the engine's hooks look once more
 * in the moment before, and refuse. docs/decisions/010 has the windows that are left.
 */
import { isDeepStrictEqual } from "node:util";
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { type EdgeAccess, edgeApi } from "../api.ts";
import type { LiveZone } from "./live-zone.ts";
import { foreignRules, isOurs, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/**
 * The hook's name, and all that a person reads when `pulumi destroy` is refused: it does not run the program, and the
 * engine refuses it for a state that holds a delete hook, whatever else that state says.
 */
const leave = "leave by `state: absent` on every host and `pulumi up`, which takes only what is pushgate's";

export type Keeper = {
  /** For whatever may not go with rules in it that are not ours. */
  readonly beforeDelete: pulumi.ResourceHook;
  /** For a ruleset that carries the zone's own rules. */
  readonly whileWriting: (phase: PhaseName) => pulumi.ResourceHookBinding;
};

const quoted = (rules: readonly Rule[]): string =>
  rules.map(({ description, ref }) => `"${description || ref}"`).join(", ");

/** Throws where a ruleset that is to go has rules of the zone's own now, or nobody can tell. */
async function refuseToLose(rulesets: readonly { readonly zoneId: string; readonly id: string }[]): Promise<void> {
  const live = await Promise.all(rulesets.map((one) => cloudflare.getRuleset(one)));
  const lost = live.flatMap(({ rules }) => foreignRules(rules ?? []));
  if (lost.length > 0) throw new Error(`the zone's own rules would go, too: ${quoted(lost)}`);
}

/** Registered in every run: what has left the program keeps the hook's name, and is not deleted if nobody answers to it. */
export function keeper(zone: LiveZone, access: EdgeAccess | undefined): Keeper {
  const all = phaseNames.flatMap((name) => zone.phases[name].id ?? []).map((id) => ({ zoneId: zone.id, id }));
  const beforeDelete = new pulumi.ResourceHook(
    leave,
    // The lock has no id, and stands for all of them. A ruleset that another zone has from before is looked up there.
    ({ id, oldInputs }) => refuseToLose(id === "" ? all : [{ zoneId: oldInputs?.zoneId ?? zone.id, id }]),
    { onDryRun: true },
  );
  return { beforeDelete, whileWriting: (phase) => whileWriting(zone, phase, access) };
}

function whileWriting(zone: LiveZone, phase: PhaseName, access: EdgeAccess | undefined): pulumi.ResourceHookBinding {
  const { id, foreign } = zone.phases[phase];
  // Where there was none, it is created, which the API refuses if somebody else was faster.
  if (id === undefined) return {};
  const { name } = phases[phase];
  let seen: Version = { version: "", rules: [] };
  const before = new pulumi.ResourceHook(`a last look at the ${name}`, async () => {
    const { rules = [], version } = await cloudflare.getRuleset({ zoneId: zone.id, id });
    if (!isDeepStrictEqual(foreignRules(rules), foreign))
      throw new Error("the zone's own were changed while this ran. They were left alone: pulumi up again");
    seen = { version, rules };
  });
  const after = new pulumi.ResourceHook(`nobody else wrote the ${name}`, async ({ newOutputs }) => {
    // Every write makes a version, numbered on.
    const replaced = Number(newOutputs?.version) - 1;
    if (replaced === Number(seen.version)) return;
    const path = `zones/${zone.id}/rulesets/${id}/versions/${replaced}`;
    const former = access && (await edgeApi(access).get<Version>(path));
    const lost = former && overwritten(seen, former).map((rule) => JSON.stringify(rule));
    if (lost?.length === 0) return;
    const which = lost ? `put back ${lost.join(", ")}` : "look what is missing";
    throw new Error(`somebody did, in the very moment in which this wrote them, and it was overwritten: ${which}`);
  });
  return { beforeUpdate: [before], afterUpdate: [after] };
}

type Versioned = { readonly id?: string; readonly ref?: string; readonly version?: string };
type Version = { readonly version: string; readonly rules?: readonly Versioned[] };

/** The zone's own in `former` that were not so when they were read, new or edited. A rule's version counts its edits. */
const overwritten = (read: Version, former: Version): Versioned[] =>
  (former.rules ?? []).filter(
    (rule) => !isOurs(rule) && !read.rules?.some(({ id, version }) => id === rule.id && version === rule.version),
  );

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
export function lock(
  { beforeDelete }: Keeper,
  records: readonly pulumi.Resource[],
  parent: pulumi.Resource,
): pulumi.Resource {
  const hooks = records.length > 0 ? { beforeDelete: [beforeDelete] } : {};
  return new Lock("rules of the zone's own", { parent, dependsOn: [...records], hooks });
}
