/**
 * What the zone is now, read on every run before anything is declared: its id and plan, and the rules of our phases
 * that are not ours, so that they can be carried. Reads only.
 */
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { asInputs, type LivePhase, type PhaseName, phaseNames, phases } from "./phase.ts";

export type LiveZone = {
  readonly id: string;
  readonly name: string;
  /** "free", "pro", "business" or "enterprise"; the vendor has others for partners. */
  readonly plan: string;
  /** Whether Bot Fight Mode is on; absent on plans that do not have it. */
  readonly botFightMode?: boolean;
  readonly phases: Readonly<Record<PhaseName, LivePhase>>;
};

/** Why nothing is sent to the edge: all reasons at once. */
export class EdgeError extends pulumi.RunError {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    const one = faults.length === 1;
    super(`${faults.length} fault${one ? "" : "s"} at the edge, nothing was changed:\n  ${faults.join("\n  ")}`);
    this.faults = faults;
  }
}

/** Throws EdgeError with what the vendor said and what is likely meant by it. */
async function read<T>(what: string, permission: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new EdgeError([
      `${what} can't be read: ${said.replace(/\s+/g, " ").trim()}. Check that cloudflare:apiToken is set, is meant for this ` +
        `zone, and has the permission ${permission} Read`,
    ]);
  }
}

type Summary = { readonly id: string; readonly kind: string; readonly phase: string };

async function livePhase(zoneId: string, name: PhaseName, rulesets: readonly Summary[]): Promise<LivePhase> {
  const { phase, permission } = phases[name];
  // Managed rulesets are listed too; the entry point of a phase is the one of kind "zone".
  const entry = rulesets.find((one) => one.kind === "zone" && one.phase === phase);
  if (entry === undefined) return { name: "default", description: "", rules: [] };
  const live = await read(
    `the zone's ${phases[name].name}`,
    permission,
    cloudflare.getRuleset({ zoneId, id: entry.id }),
  );
  return {
    id: entry.id,
    name: live.name,
    description: live.description ?? "",
    rules: asInputs(live.rules ?? []),
  };
}

/** Throws EdgeError: no such zone, no permission, no answer. */
export async function inspect(zone: string): Promise<LiveZone> {
  const { id, plan } = await read(`the zone ${zone}`, "Zone", cloudflare.getZone({ filter: { name: zone } }));
  const [listed, bots] = await Promise.all([
    read(`the rulesets of ${zone}`, "Zone WAF", cloudflare.getRulesets({ zoneId: id })),
    plan.legacyId === "free"
      ? read(`the bot settings of ${zone}`, "Bot Management", cloudflare.getBotManagement({ zoneId: id }))
      : undefined,
  ]);
  // `results` is the older name of `rulesets`; either may be all there is.
  const rulesets = [...(listed.rulesets ?? []), ...(listed.results ?? [])];
  const live = await Promise.all(phaseNames.map((name) => livePhase(id, name, rulesets)));
  return {
    id,
    name: zone,
    plan: plan.legacyId,
    ...(bots !== undefined && { botFightMode: bots.fightMode === true }),
    phases: Object.fromEntries(phaseNames.map((name, i) => [name, live[i]!])) as LiveZone["phases"],
  };
}
