/** Reads the zone on every run, before anything is declared: its id, its plan, and the rules of the phases. */
import * as pulumi from "@pulumi/pulumi";
import { oneLine } from "../api.ts";
import { cloudflare } from "../provider.ts";
import { asInputs, type LivePhase, type LivePhases, type PhaseName, phaseNames, phases } from "./phase.ts";

export type LiveZone = {
  readonly id: string;
  readonly name: string;
  readonly plan: string; // "free", "pro", "business" or "enterprise"; Cloudflare has others for partners
  readonly botFightMode?: boolean; // whether Bot Fight Mode is on; absent on plans without it
  readonly managedRobotsTxt?: boolean; // of Cloudflare's own; absent where Bot Fight Mode is
  readonly phases: LivePhases;
};

export class CloudflareError extends pulumi.RunError {
  constructor(faults: readonly string[]) {
    const count = `${faults.length} fault${faults.length === 1 ? "" : "s"}`;
    super(`Cloudflare: ${count}, nothing was changed:\n  ${faults.join("\n  ")}`);
  }
}

const read = <T>(what: string, permission: string, answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    if (error instanceof CloudflareError) throw error;
    throw new CloudflareError([
      `${what} cannot be read: ${oneLine(error)}. Check that cloudflare:apiToken is set, belongs to this zone and has the ` +
        `permission ${permission} Read.`,
    ]);
  });

async function livePhase(zoneId: string, id: string | undefined, name: PhaseName): Promise<LivePhase> {
  const { permission, name: title } = phases[name];
  if (id === undefined) return { name: "default", description: "", rules: [] };
  const live = await read(`the zone's ${title}`, permission, cloudflare.getRuleset({ zoneId, id }));
  return { id, name: live.name, description: live.description ?? "", rules: asInputs(live.rules) };
}

const zoneNamed = (name: string) => cloudflare.getZone({ filter: { name } });

/** Throws a fault that names the zone which the token can read, and which the name is below; else the error itself. */
async function notFound(name: string, error: unknown): Promise<never> {
  const labels = name.split(".");
  const above = labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join("."));
  const found = await Promise.any(above.map((parent) => zoneNamed(parent).then(() => parent))).catch(() => undefined);
  if (found === undefined) throw error;
  const set = `npx pulumi config set pushgate:zone ${found}`;
  throw new CloudflareError([
    `pushgate:zone is "${name}", a name in the zone ${found} and no zone itself. Run: ${set}`,
  ]);
}

export async function inspect(zone: string): Promise<LiveZone> {
  const named = zoneNamed(zone).catch((error) => notFound(zone, error));
  const { id, plan } = await read(`the zone ${zone}`, "Zone", named);
  const [listed, bots] = await Promise.all([
    read(`the rulesets of ${zone}`, "Zone WAF", cloudflare.getRulesets({ zoneId: id })),
    plan.legacyId === "free"
      ? read(`the bot settings of ${zone}`, "Bot Management", cloudflare.getBotManagement({ zoneId: id }))
      : undefined,
  ]);
  // `results` is the older name of `rulesets`; the provider may fill either.
  const rulesets = [...(listed.rulesets ?? []), ...(listed.results ?? [])];
  // Managed rulesets are listed too. The zone's own ruleset of a phase is the one of kind "zone".
  const own = (name: PhaseName) => rulesets.find((one) => one.kind === "zone" && one.phase === phases[name].phase)?.id;
  const live = await Promise.all(phaseNames.map((name) => livePhase(id, own(name), name)));
  return {
    id,
    name: zone,
    plan: plan.legacyId,
    ...(bots && { botFightMode: bots.fightMode === true, managedRobotsTxt: bots.isRobotsTxtManaged === true }),
    phases: Object.fromEntries(phaseNames.map((name, i) => [name, live[i]!])) as LivePhases,
  };
}
