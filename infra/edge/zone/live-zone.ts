/** Reads the zone on every run, before anything is declared: its id, its plan, and the rules of the phases. */
import * as pulumi from "@pulumi/pulumi";
import { type CloudflareApi, explained, zoneNamed } from "../api.ts";
import {
  type ApiRuleset,
  asInputs,
  type LivePhase,
  type LivePhases,
  type PhaseName,
  phaseNames,
  phases,
} from "./phase.ts";

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
    throw new CloudflareError([explained(`${what} cannot be read`, `${permission} Read`, error)]);
  });

async function livePhase(api: CloudflareApi, zoneId: string, name: PhaseName): Promise<LivePhase> {
  const { permission, phase, name: title } = phases[name];
  const found = api.get<ApiRuleset>(`zones/${zoneId}/rulesets/phases/${phase}/entrypoint`);
  const live = await read(`the zone's ${title}`, permission, found);
  if (live === undefined) return { name: "default", description: "", rules: [] };
  return { id: live.id, name: live.name, description: live.description ?? "", rules: asInputs(live.rules) };
}

/** Names the zone that the token can read and that the name is below, if there is one. */
async function notFound(api: CloudflareApi, name: string): Promise<CloudflareError> {
  const labels = name.split(".");
  const above = labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join("."));
  const [found] = (await Promise.all(above.map((parent) => zoneNamed(api, parent)))).flatMap((zone) => zone ?? []);
  return new CloudflareError([
    found
      ? `pushgate:zone is "${name}", a name in the zone ${found.name} and no zone itself. Run: npx pulumi config set pushgate:zone ${found.name}`
      : `pushgate:zone is "${name}", and cloudflare:apiToken can read no zone of that name. Correct the name, or add the zone to the token's resources.`,
  ]);
}

type BotSettings = { readonly fight_mode?: boolean; readonly is_robots_txt_managed?: boolean };

export async function inspect(api: CloudflareApi, name: string): Promise<LiveZone> {
  const zone = await read(`the zone ${name}`, "Zone", zoneNamed(api, name));
  if (zone === undefined) throw await read("the zones above it", "Zone", notFound(api, name));
  const { id, plan: { legacy_id: plan = "unknown" } = {} } = zone;
  const readBots = () =>
    read(`the bot settings of ${name}`, "Bot Management", api.get<BotSettings>(`zones/${id}/bot_management`));
  const [live, bots] = await Promise.all([
    Promise.all(phaseNames.map((phase) => livePhase(api, id, phase))),
    plan === "free" ? readBots() : undefined,
  ]);
  return {
    ...{ id, name, plan },
    ...(bots && { botFightMode: bots.fight_mode === true, managedRobotsTxt: bots.is_robots_txt_managed === true }),
    phases: Object.fromEntries(phaseNames.map((phase, i) => [phase, live[i]!])) as LivePhases,
  };
}
