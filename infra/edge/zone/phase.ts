/**
 * One ruleset a phase is all a zone has, and an update replaces every rule in it: ours and the zone's own travel
 * together. Pure: ruleset.ts declares them.
 */

/** A rule as the provider takes it. Foreign ones carry whatever else the operator set. */
export type Rule = {
  /** Keeps the rule's id through edits and re-ordering, and names it in Security Events. */
  readonly ref: string;
  readonly action: string;
  readonly expression: string;
  readonly enabled: boolean;
  readonly description: string;
  readonly actionParameters?: Readonly<Record<string, unknown>>;
  readonly logging?: { readonly enabled: boolean };
};

type About = {
  readonly phase: string;
  /** The resource's name, and a person's word for it. */
  readonly name: string;
  /** Where our rules stand among the zone's own. */
  readonly ours: "first" | "last";
  /** The token's permission that reading and writing it takes. */
  readonly permission: string;
};

/**
 * Custom rules stop at the first that decides, so ours come first: an operator's challenge would meet deliveries
 * before the skip does. The other two merge all that match and the later one wins
 * (developers.cloudflare.com/rules/origin-rules/faq), so ours come last: a zone-wide `ssl: flexible` would undo ours.
 */
export const phases = {
  custom: { phase: "http_request_firewall_custom", name: "custom rules", ours: "first", permission: "Zone WAF" },
  origin: { phase: "http_request_origin", name: "origin rules", ours: "last", permission: "Origin Rules" },
  config: { phase: "http_config_settings", name: "configuration rules", ours: "last", permission: "Config Rules" },
} as const satisfies Record<string, About>;
export type PhaseName = keyof typeof phases;
export const phaseNames = Object.keys(phases) as PhaseName[];

/** What a zone has in one phase now. */
export type LivePhase = {
  /** The existing ruleset's id; absent where the zone has none. */
  readonly id?: string;
  /** A changed name replaces the ruleset, which leaves a moment without rules: the existing one is kept. */
  readonly name: string;
  readonly description: string;
  /** All of them, pushgate's included, as inputs of the provider: what `up` would leave alone equals them. */
  readonly rules: readonly Rule[];
};

export const prefix = "pushgate_";
export const isOurs = ({ ref }: { readonly ref?: string | null }): boolean => ref?.startsWith(prefix) === true;

/** Computed by the API, or the provider's spelling of "not set". */
const computed = new Set(["id", "version", "lastUpdated", "categories"]);

/** Nulls, empty lists and objects that hold nothing else are the provider's way to say that nothing was set. */
function withoutUnset(value: unknown): unknown {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map(withoutUnset);
  if (typeof value !== "object") return value;
  const set = Object.entries(value)
    .map(([key, inner]) => [key, withoutUnset(inner)] as const)
    .filter(([, inner]) => inner !== undefined);
  return set.length === 0 ? undefined : Object.fromEntries(set);
}

/** A live ruleset's rules as inputs that leave them as they are. */
export const asInputs = (live: readonly object[]): Rule[] =>
  live.map(
    (rule) => withoutUnset(Object.fromEntries(Object.entries(rule).filter(([key]) => !computed.has(key)))) as Rule,
  );

/** Those that are not pushgate's. */
export const foreignRules = (rules: readonly Rule[]): Rule[] => rules.filter((rule) => !isOurs(rule));

/** The live rules of a phase with pushgate's replaced by `ours`, in the order they run. */
export function merged(phase: PhaseName, ours: readonly Rule[], live: readonly Rule[]): Rule[] {
  const foreign = foreignRules(live);
  return phases[phase].ours === "first" ? [...ours, ...foreign] : [...foreign, ...ours];
}
