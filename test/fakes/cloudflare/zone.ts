/**
 * What Cloudflare knows of one zone, in the API's own shapes, so that the fake API can return it as it is. It can also be
 * made from what the program declares, so that the rules can be evaluated without an API.
 */
import { createHash } from "node:crypto";
import type { Plan } from "../../../infra/config/settings.ts";
import { networks } from "../../../infra/networks.ts";

export type Rule = {
  id: string;
  ref: string;
  version: string;
  action: string;
  expression: string;
  enabled: boolean;
  description?: string;
  action_parameters?: {
    ruleset?: string;
    phases?: string[];
    products?: string[];
    origin?: { port?: number };
    ssl?: string;
    [other: string]: unknown;
  };
  logging?: { enabled: boolean };
  ratelimit?: { characteristics: string[]; period: number; requests_per_period: number; mitigation_timeout: number };
  last_updated: string;
};

export type Ruleset = {
  id: string;
  name: string;
  description: string;
  kind: string;
  version: string;
  phase: string;
  last_updated: string;
  rules: Rule[];
};

export type DnsRecord = { id: string; name: string; type: string; content: string; proxied: boolean; ttl: number } & {
  [other: string]: unknown;
};

/** A client certificate that Cloudflare may present; the key never leaves the fake. */
export type ClientCertificate = { id: string; certificate: string; private_key: string; [other: string]: unknown };

export type ZoneState = {
  id: string;
  name: string;
  plan: Plan;
  rulesets: Ruleset[];
  dns_records: DnsRecord[];
  bot_management: Record<string, unknown>;
  /** By id; a setting that is not here has Cloudflare's default. */
  settings: Record<string, unknown>;
  access_rules: { id: string; mode: "block" | "whitelist"; value: string }[];
  /** User agents the zone blocks, and URL prefixes it locks down to some addresses. */
  user_agent_blocks: string[];
  lockdowns: { prefix: string; addresses: string[] }[];
  origin_certificates: { id: string; certificate: string; hostnames: string[]; [other: string]: unknown }[];
  /** What Cloudflare presents to visitors. */
  certificate_packs: { id: string; type: string; status: string; hosts: string[] }[];
  /** What Cloudflare itself publishes of its addresses. */
  ranges: string[];
  origin_pulls: {
    hostname_certificates: ClientCertificate[];
    hostnames: { hostname: string; cert_id: string; enabled: boolean; [other: string]: unknown }[];
  };
};

/** 32 hexadecimal characters from anything, as the API's ids are. */
export const idOf = (...parts: readonly unknown[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);

/** A zone as Cloudflare creates one: bot products off, Browser Integrity Check on, SSL "full". */
export function emptyZone(name: string, plan: Plan): ZoneState {
  const own = plan === "free" ? { fight_mode: false } : { sbfm_definitely_automated: "allow" };
  const universal = { id: idOf("universal", name), type: "universal", status: "active", hosts: [name, `*.${name}`] };
  return {
    ...{ id: idOf("zone", name), name, plan, rulesets: [], dns_records: [] },
    bot_management: { enable_js: true, is_robots_txt_managed: false, ...own },
    settings: { ssl: "full", browser_check: "on", security_level: "medium" },
    ...{ access_rules: [], user_agent_blocks: [], lockdowns: [] },
    ...{ origin_certificates: [], certificate_packs: [universal] },
    ranges: [...networks.cloudflare.cidrs],
    origin_pulls: { hostname_certificates: [], hostnames: [] },
  };
}

/** A phase's entry point; managed rulesets are listed beside it, under the same phase. */
export const entryPoint = (zone: ZoneState, phase: string): Ruleset | undefined =>
  zone.rulesets.find((ruleset) => ruleset.kind === "zone" && ruleset.phase === phase);

export const rulesOf = (zone: ZoneState, phase: string): Rule[] => entryPoint(zone, phase)?.rules ?? [];

/**
 * Rules without empty parameters and an empty description, for a comparison. A rule that had none comes back with both:
 * the provider fills them in and has no value for their absence (docs/decisions/022). Neither changes what a rule does.
 */
export const withoutEmpty = (rules: readonly Rule[]): Rule[] =>
  rules.map(({ description, action_parameters: parameters = {}, ...rest }) => ({
    ...rest,
    ...(description && { description }),
    ...(Object.keys(parameters).length > 0 && { action_parameters: parameters }),
  }));

/** A resource as the program declares it: what a mock of the engine is given. */
export type Declared = {
  /** As the engine names it, "cloudflare:index/ruleset:Ruleset". */
  readonly type: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, unknown>>;
};

const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Every object's null and undefined members away, at every depth; the API takes null for absent. */
export function withoutNulls(value: unknown, rename: (key: string) => string = (key) => key): unknown {
  if (Array.isArray(value)) return value.map((one) => withoutNulls(one, rename));
  if (typeof value !== "object" || value === null) return value;
  const present = Object.entries(value).filter(([, inner]) => inner !== undefined && inner !== null);
  return Object.fromEntries(present.map(([key, inner]) => [rename(key), withoutNulls(inner, rename)]));
}

/** `base` with the declared rules, records and origin pulls in it; resources of other kinds are ignored. */
export function zoneFromDeclarations(resources: readonly Declared[], base: ZoneState): ZoneState {
  const zone = structuredClone(base);
  const written = { version: "1", last_updated: "2026-01-01T00:00:00Z" };
  const { hostnames } = zone.origin_pulls;
  for (const { type, name, inputs } of resources) {
    if (!type.startsWith("cloudflare:")) continue;
    const [id, kind] = [idOf(type, name), type.split(":").at(-1)];
    // The API's names are in snake_case.
    const declared = withoutNulls(inputs, snake) as Partial<Ruleset> & { configs?: typeof hostnames };
    if (kind === "Ruleset") {
      const rules = (declared.rules ?? []).map((rule) => ({ ...rule, id: idOf(id, rule.ref), ...written }));
      zone.rulesets = zone.rulesets.filter(({ phase }) => phase !== declared.phase);
      zone.rulesets.push({ description: "", ...declared, id, ...written, rules } as Ruleset);
    }
    if (kind === "DnsRecord") zone.dns_records.push({ ...declared, id } as object as DnsRecord);
    if (kind === "AuthenticatedOriginPulls") hostnames.push(...(declared.configs ?? []));
  }
  return zone;
}

/** `base` with these rules by phase, and these records, as the program declares both. */
export function declaredZone(
  base: ZoneState,
  rules: Readonly<Record<string, readonly object[]>>,
  records: readonly Declared["inputs"][],
): ZoneState {
  const ruleset = (phase: string) => ({ kind: "zone", name: "default", phase, rules: rules[phase] });
  const rulesets = Object.keys(rules).map((name) => ({ type: "cloudflare:Ruleset", name, inputs: ruleset(name) }));
  const dns = records.map((inputs) => ({ type: "cloudflare:DnsRecord", name: JSON.stringify(inputs), inputs }));
  return zoneFromDeclarations([...rulesets, ...dns], base);
}
