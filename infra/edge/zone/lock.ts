/** The one place that declares rulesets, so that no write or delete takes a rule of the zone's own (decision 010). */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import type { Host } from "../../config/settings.ts";
import { lockOf } from "../../contract.ts";
import { type CloudflareApi, explained } from "../api.ts";
import { cloudflare } from "../provider.ts";
import type { LiveZone } from "./live-zone.ts";
import {
  type ApiRuleset,
  asInputs,
  foreignRules,
  merged,
  type PhaseName,
  phaseNames,
  phases,
  quoted,
  type Rule,
} from "./phase.ts";

/** The delete hook's name, which `pulumi destroy` prints. Existing states hold this text: never change it. */
const leave = "leave by `state: absent` on every host and `pulumi up`, which takes only what is pushgate's";

type Keeper = ReturnType<typeof keeper>;

/** Registers the delete hook on every run, as a ruleset that has left the program still names it. */
export function keeper(api: CloudflareApi, { id: zoneId, phases: live }: LiveZone) {
  const foreignIn = async (ruleset: { readonly zoneId: string; readonly id: string }): Promise<Rule[]> => {
    const found = api.get<ApiRuleset>(`zones/${ruleset.zoneId}/rulesets/${ruleset.id}`).catch((error: unknown) => {
      throw new Error(
        explained("the zone's own rules cannot be read", "Zone WAF, Origin Rules and Config Rules Edit", error),
      );
    });
    return foreignRules(asInputs((await found)?.rules));
  };
  const all = phaseNames.flatMap((name) => live[name].id ?? []).map((id) => ({ zoneId, id }));
  const beforeDelete = new pulumi.ResourceHook(
    leave,
    // The lock has no id and covers all rulesets. A ruleset of a former zone is read in that zone.
    async ({ id, oldInputs }) => {
      const rulesets = id === "" ? all : [{ zoneId: oldInputs?.zoneId ?? zoneId, id }];
      const lost = (await Promise.all(rulesets.map(foreignIn))).flat();
      if (lost.length > 0) throw new Error(`the zone's own rules would be deleted, too: ${quoted(lost)}`);
    },
    { onDryRun: true },
  );
  const beforeUpdate = (phase: PhaseName): pulumi.ResourceHookBinding => {
    const { id, rules: carried } = live[phase];
    // `up` creates it then, which the API rejects if the zone has one by now.
    if (id === undefined) return {};
    const hook = new pulumi.ResourceHook(`a last look at the ${phases[phase].name}`, async () => {
      if (!isDeepStrictEqual(await foreignIn({ zoneId, id }), foreignRules(carried)))
        throw new Error(
          "the zone's own rules were changed during this run, and nothing was written. Run npx pulumi up again.",
        );
    });
    return { beforeUpdate: [hook] };
  };
  return { beforeDelete, beforeUpdate };
}

/** undefined without rules: the ruleset is deleted, and the zone is as it was before pushgate. */
export function ruleset(
  zone: LiveZone,
  phase: PhaseName,
  ours: readonly Rule[],
  { beforeDelete, beforeUpdate }: Keeper,
  opts: pulumi.CustomResourceOptions = {},
) {
  const { name, description, rules: live } = zone.phases[phase];
  const rules = merged(phase, ours, live);
  if (rules.length === 0) return undefined;
  const args = { zoneId: zone.id, kind: "zone", phase: phases[phase].phase, name, description, rules };
  const hooks = beforeUpdate(phase);
  // Without pushgate's rules, the ruleset is only forgotten when it leaves the state.
  const kept =
    ours.length > 0 ? { hooks: { ...hooks, beforeDelete: [beforeDelete] } } : { hooks, retainOnDelete: true };
  return new cloudflare.Ruleset(phases[phase].name, args, { ...opts, ...kept });
}

/** A destroy deletes the last resource first, so the lock comes after the DNS records; its hook covers all rulesets. */
export function lock({ beforeDelete }: Keeper, records: readonly pulumi.Resource[], parent: pulumi.Resource): void {
  const hooks = records.length > 0 ? { beforeDelete: [beforeDelete] } : {};
  const name = "rules of the zone's own";
  new pulumi.ComponentResource("pushgate:edge:Lock", name, {}, { parent, dependsOn: [...records], hooks });
}

/** A forgotten host would keep everything. Registered on every run: only a state names a host that was removed. */
export function lockHosts(
  hosts: readonly { readonly host: Pick<Host, "name" | "state">; readonly component: pulumi.Resource }[],
  records: readonly pulumi.Resource[],
): void {
  const stays = new pulumi.ResourceHook(
    "a host leaves by `state: absent`",
    ({ name }) => {
      const host = name.replace(/ lock$/, "");
      if (hosts.some((one) => one.host.name === host && one.host.state !== "present")) return;
      throw new Error(
        `${host} would keep all of pushgate. List it in pushgate:hosts with \`state: absent\`, which removes everything from it, or with \`state: lost\` if it is gone for good; run npx pulumi up, and only then remove it or destroy the stack.`,
      );
    },
    { onDryRun: true },
  );
  const common = { dependsOn: [...records], hooks: { beforeDelete: [stays] } };
  for (const { host, component: parent } of hosts.filter(({ host }) => host.state === "present"))
    new pulumi.ComponentResource("pushgate:edge:Lock", lockOf(host), {}, { ...common, parent });
}
