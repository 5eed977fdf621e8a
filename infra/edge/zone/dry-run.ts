/**
 * What a preview asks of the token and of the rules before an `up` finds out in its middle: every endpoint that is used
 * is read once, and rulesets that would change are written with `dry_run=true`, which checks permission, quota, fields
 * and entitlement and writes nothing. DNS, certificates and bots have no dry run: see `unproven`.
 */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import { hostnames, siteHostnames } from "../../config/hostnames.ts";
import type { Settings } from "../../config/settings.ts";
import { ApiRefusal, type EdgeAccess, type EdgeApi, edgeApi } from "../api.ts";
import { botSettings } from "../bots.ts";
import { rulesOf } from "./fits.ts";
import { EdgeError, type LiveZone } from "./live-zone.ts";
import { isOurs, merged, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/** As the dashboard's page for tokens words them; its Edit is the API's Write, and reads too. */
const dns = "DNS";
const certificates = "SSL and Certificates";
const bots = "Bot Management";

/** All that an `up` takes; README lists the same. */
export const permissions = (settings: Pick<Settings, "edge">): string[] => [
  "Zone Read",
  ...[dns, certificates, ...new Set(phaseNames.map((name) => phases[name].permission))].map((name) => `${name} Edit`),
  // The free plan's setting is read always, and written by choice.
  ...(settings.edge.plan !== "free" ? [] : [`${bots} ${botSettings(settings.edge) === undefined ? "Read" : "Edit"}`]),
];

/** Permissions that only a write proves, as reading is all that can be asked of these endpoints. */
const unproven = (settings: Pick<Settings, "edge">): string[] =>
  permissions(settings).filter((name) => [dns, certificates, bots].some((kind) => name === `${kind} Edit`));

/** Whether `up` would leave this phase as it is. */
const stands = (name: PhaseName, ours: readonly Rule[], { phases: live }: LiveZone): boolean =>
  isDeepStrictEqual(live[name].rules, merged(name, ours, live[name].rules));

const denied = (what: string, permission: string, error: unknown, otherwise: string): string[] => {
  if (!(error instanceof ApiRefusal)) throw error;
  return error.forbids
    ? [`${what} with cloudflare:apiToken: ${error.message}. Give the token the permission ${permission}, for this zone`]
    : [`${what}: ${error.message}. ${otherwise}`];
};

/** Cloudflare's answer says how many rules or characters too many; which plan holds how many is for its own pages. */
const smaller: Readonly<Record<PhaseName, string>> = {
  custom:
    "If these are too many rules, remove some of the zone's own or choose a larger plan. If an expression is too long, " +
    "write fewer, wider ranges in sources",
  origin:
    "If these are too many rules, give the hosts the same originPort, which takes one rule, remove some of the zone's " +
    "own, or choose a larger plan",
  config: "If these are too many rules, remove some of the zone's own or choose a larger plan",
};

const tryAgain = "Check the connection to Cloudflare, then run it again";

async function readable(api: EdgeApi, { id, name }: LiveZone): Promise<string[]> {
  const [zone, pulls] = [`zones/${id}`, `zones/${id}/origin_tls_client_auth/hostnames/certificates`];
  const asked: [what: string, permission: string, path: string][] = [
    [`the DNS records of ${name} can't be read`, dns, `${zone}/dns_records?per_page=1`],
    [`the origin certificates of ${name} can't be read`, certificates, `certificates?zone_id=${id}`],
    [`the origin pull certificates of ${name} can't be read`, certificates, pulls],
  ];
  const faults = asked.map(([what, permission, path]) =>
    api.get(path).then(
      () => [],
      (error: unknown) => denied(what, `${permission} Edit`, error, tryAgain),
    ),
  );
  return (await Promise.all(faults)).flat();
}

/** A site's name is often there before us, and beside a CNAME the edge takes no address. What can't be read, `readable` says. */
async function free(api: EdgeApi, zone: LiveZone, hostname: string): Promise<string[]> {
  const path = `zones/${zone.id}/dns_records?name=${hostname}&type=CNAME`;
  const live = await api.list<{ type: string; content: string }>(path).catch(() => []);
  return live
    .filter(({ type }) => type === "CNAME")
    .map(
      ({ content }) =>
        `${hostname} is a CNAME to ${content} now, beside which there can be no address of a machine: remove it, then ` +
        "`pulumi up`, which makes the name lead to the machines",
    );
}

const snake = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(snake);
  if (typeof value !== "object" || value === null) return value;
  const name = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [name(key), snake(inner)]));
};

/** The zone's own rules go as the API gave them, not as the provider reads them: what is tried is ours. */
async function writable(api: EdgeApi, name: PhaseName, ours: readonly Rule[], zone: LiveZone): Promise<string[]> {
  const { id, name: title, description } = zone.phases[name];
  const { phase, permission, name: what } = phases[name];
  const path = `zones/${zone.id}/rulesets`;
  try {
    const live = id ? await api.get<{ rules?: (Rule & Record<string, unknown>)[] }>(`${path}/${id}`) : undefined;
    const theirs = (live?.rules ?? [])
      .filter((rule) => !isOurs(rule))
      .map(({ version: _, last_updated: __, categories: ___, ...rule }) => rule as unknown as Rule);
    const rules = merged(
      name,
      ours.map((rule) => snake(rule) as Rule),
      theirs,
    );
    const body = { name: title, description, kind: "zone", phase, rules };
    await (id ? api.dryRun("PUT", `${path}/${id}`, body) : api.dryRun("POST", path, body));
    return [];
  } catch (error) {
    const refused = `the ${what} that \`up\` would write to ${zone.name} are refused`;
    return denied(refused, `${permission} Edit`, error, smaller[name]);
  }
}

/** All reasons why an `up` would fail at the edge, as far as can be known before it writes. */
export async function dryRunFaults(api: EdgeApi, settings: Settings, zone: LiveZone): Promise<string[]> {
  if (hostnames(settings).length === 0) return [];
  const ours = rulesOf(settings);
  const changing = phaseNames.filter((name) => ours[name].length > 0 && !stands(name, ours[name], zone));
  const names = siteHostnames(settings).map((hostname) => free(api, zone, hostname));
  const faults = [readable(api, zone), ...names, ...changing.map((name) => writable(api, name, ours[name], zone))];
  return (await Promise.all(faults)).flat();
}

/**
 * Throws EdgeError. In previews only: an `up` is preceded by one, and refuses nothing that it could do. Where everything
 * is as declared it costs three small reads.
 */
export async function tryOut(access: EdgeAccess | undefined, settings: Settings, zone: LiveZone): Promise<void> {
  if (!pulumi.runtime.isDryRun()) return;
  if (access === undefined) {
    void pulumi.log.warn(
      "cloudflare:apiToken is not in the stack's configuration, so whether the token may write and the edge would take " +
        "the rules was not tried: pulumi config set --secret cloudflare:apiToken",
    );
    return;
  }
  const faults = await dryRunFaults(edgeApi(access), settings, zone);
  if (faults.length > 0) throw new EdgeError(faults);
  if (hostnames(settings).length > 0 && !phaseNames.some((name) => zone.phases[name].rules.some(isOurs)))
    void pulumi.log.info(
      `the token may write the rules and read the rest; whether it has ${unproven(settings).join(", ")} is known only ` +
        "when `up` writes, as the edge has no dry run for those",
    );
}
