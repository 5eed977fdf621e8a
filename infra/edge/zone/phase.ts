/** An update replaces all rules of a phase, so pushgate's and the zone's own are read and written together. */
import type { types } from "@pulumi/cloudflare";
import { printable } from "../../../service/printable.ts";

/** A rule as the provider takes it. The zone's own may have fields beyond these. */
export type Rule = {
  readonly ref: string; // keeps the rule's id through edits and a new order, and names the rule in Security Events
  readonly action: string;
  readonly expression: string;
  readonly enabled: boolean;
  readonly description: string;
  readonly actionParameters?: Readonly<Record<string, unknown>>;
  readonly logging?: { readonly enabled: boolean };
};

/** The first custom rule that decides wins, in other phases the last (developers.cloudflare.com/rules/origin-rules/faq). */
export const phases = {
  custom: { phase: "http_request_firewall_custom", name: "custom rules", ours: "first", permission: "Zone WAF" },
  origin: { phase: "http_request_origin", name: "origin rules", ours: "last", permission: "Origin Rules" },
  config: { phase: "http_config_settings", name: "configuration rules", ours: "last", permission: "Config Rules" },
} as const;
export type PhaseName = keyof typeof phases;
export const phaseNames = Object.keys(phases) as PhaseName[];

export type LivePhase = {
  readonly id?: string; // the ruleset's id; absent if the zone has none
  readonly name: string; // kept, as another name would replace the ruleset and leave a moment without rules
  readonly description: string;
  /** All rules, pushgate's included, as inputs: `up` changes nothing if they equal what it declares. */
  readonly rules: readonly Rule[];
};
export type LivePhases = Readonly<Record<PhaseName, LivePhase>>;

/** A set in Cloudflare's rules language: `{"a" "b"}`. Hostnames and hook names need no escaping. */
export const set = (values: readonly string[]): string => `{${values.map((value) => `"${value}"`).join(" ")}}`;

const prefix = "pushgate_";
/** One of pushgate's rules. */
export const rule = (
  name: string,
  action: string,
  says: string,
  expression: string,
  more: Partial<Rule> = {},
): Rule => ({
  ...{ ref: prefix + name, action, enabled: true, description: `pushgate: ${says}`, expression },
  ...more,
});
export const isOurs = ({ ref }: { readonly ref?: string | null }): boolean => ref?.startsWith(prefix) === true;
export const foreignRules = <R extends Rule>(rules: readonly R[]): R[] => rules.filter((rule) => !isOurs(rule));

export const quoted = (rules: readonly Rule[]): string =>
  rules.map(({ description, ref }) => `"${printable(description || ref, 200)}"`).join(", ");

const camel = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** In the provider's spelling, and without what is not set: null, an empty list, or an object of nothing else. */
function asInput(value: unknown): unknown {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map(asInput);
  if (typeof value !== "object") return value;
  const set = Object.entries(value)
    .map(([key, inner]) => [camel(key), asInput(inner)] as const)
    .filter(([, inner]) => inner !== undefined);
  return set.length === 0 ? undefined : Object.fromEntries(set);
}

export type ApiRuleset = {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  readonly rules?: readonly Readonly<Record<string, unknown>>[];
};

/** The others are computed: id, version, last_updated, categories. */
const inputs = [
  ...["ref", "action", "expression", "enabled", "description"],
  ...["action_parameters", "logging", "ratelimit", "exposed_credential_check"],
];

/** Rules of the API -> inputs that leave them as they are. */
export const asInputs = (live: ApiRuleset["rules"] = []): Rule[] =>
  live.map((rule) => {
    const { description = "", ...set } = asInput(Object.fromEntries(inputs.map((key) => [key, rule[key]]))) as Rule;
    return { ...set, description };
  });

/** The provider writes these parameters of the phases' rules, and drops any other. */
const parameters: readonly string[] = [
  ...(["phases", "products", "ruleset", "rulesets", "rules", "response", "increment"] as const),
  ...(["hostHeader", "origin", "sni", "automaticHttpsRewrites", "autominify", "bic", "contentConverter"] as const),
  ...(["disableApps", "disableRum", "disableZaraz", "emailObfuscation", "fonts", "hotlinkProtection"] as const),
  ...(["mirage", "opportunisticEncryption", "polish", "redirectsForAiTraining", "requestBodyBuffering"] as const),
  ...(["responseBodyBuffering", "rocketLoader", "securityLevel", "serverSideExcludes", "ssl", "sxg"] as const),
] satisfies (keyof types.input.RulesetRuleActionParameters)[];

/** The parameters that a rule would lose when it is written. */
export const lostBy = ({ actionParameters = {} }: Rule): string[] =>
  Object.keys(actionParameters).filter((key) => !parameters.includes(key));

/** In the order they run: the live rules of a phase, with these in place of pushgate's. */
export const merged = (phase: PhaseName, ours: readonly Rule[], live: readonly Rule[]): Rule[] =>
  phases[phase].ours === "first" ? [...ours, ...foreignRules(live)] : [...foreignRules(live), ...ours];
