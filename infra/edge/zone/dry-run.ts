/**
 * What a preview checks at Cloudflare before `up` writes: it reads each endpoint that `up` uses, and sends each ruleset
 * that would change with `dry_run=true`, so that Cloudflare checks permissions, quotas, fields and plan. DNS, certificates
 * and bot management have no dry run: only `up` shows whether the token may write them.
 */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import { allHostnames, hookHostnames } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { ApiError, type CloudflareAccess, type CloudflareApi, cloudflareApi } from "../api.ts";
import { botSettings } from "../bots.ts";
import { rulesOf } from "./fits.ts";
import { CloudflareError, type LiveZone } from "./live-zone.ts";
import { foreignRules, isOurs, merged, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/** Permissions as the dashboard's page for tokens names them. Its Edit is the API's Write, and includes Read. */
const [dns, certificates, bots] = ["DNS", "SSL and Certificates", "Bot Management"] as const;

/** All that `up` needs; README lists the same. */
export const permissions = ({ edge }: Pick<Settings, "edge">): string[] => [
  "Zone Read",
  ...[dns, certificates, ...new Set(phaseNames.map((name) => phases[name].permission))].map((name) => `${name} Edit`),
  // The free plan's setting is always read, and written if the operator chose so.
  ...(edge.plan === "free" ? [`${bots} ${botSettings(edge) === undefined ? "Read" : "Edit"}`] : []),
];

/** Cloudflare's answer says how many rules or characters are too many. */
const smaller = "If there are too many rules, remove some of the zone's own or choose a larger plan.";
const smallerBy: Readonly<Record<PhaseName, string>> = {
  custom: `${smaller} If an expression is too long, write fewer, wider ranges in hooks[].sources.`,
  origin: `${smaller} Hosts with the same originPort take one rule together.`,
  config: smaller,
};

function fault(what: string, permission: string, error: unknown, otherwise: string): string[] {
  if (!(error instanceof ApiError)) throw error;
  const forbidden = error.status === 401 || error.status === 403;
  const remedy = forbidden ? `Give cloudflare:apiToken the permission ${permission} Edit for this zone.` : otherwise;
  return [`${what}: ${error.message}. ${remedy}`];
}

const unread =
  (what: string, permission: string, { name }: LiveZone) =>
  (error: unknown): string[] =>
    fault(
      `the ${what} of ${name} cannot be read`,
      permission,
      error,
      "Check the connection to Cloudflare and run it again.",
    );

function readFaults(api: CloudflareApi, zone: LiveZone): Promise<string[]>[] {
  const read = (what: string, path: string): Promise<string[]> =>
    api.get(path).then(() => [], unread(what, certificates, zone));
  return [
    read("origin certificates", `certificates?zone_id=${zone.id}`),
    read("client certificates", `zones/${zone.id}/origin_tls_client_auth/hostnames/certificates`),
  ];
}

/** A hostname often exists before pushgate, such as a site's that another service serves, or a hook's of a tunnel. */
async function dnsFaults(api: CloudflareApi, zone: LiveZone, hostnames: readonly string[]): Promise<string[]> {
  try {
    const cnames = await api.list<{ name: string; content: string }>(`zones/${zone.id}/dns_records?type=CNAME`);
    return cnames
      .filter(({ name }) => hostnames.includes(name))
      .map(
        ({ name, content }) =>
          `${name} is a CNAME to ${content}, and a CNAME allows no address beside it. Remove the CNAME, then run ` +
          "npx pulumi up, which makes the name lead to the hosts.",
      );
  } catch (error) {
    return unread("DNS records", dns, zone)(error);
  }
}

/** The hostnames of hosts that are not absent and of sites, each with its key. */
const declaredNames = ({ hosts, hooks }: Settings): [key: string, hostname: string][] => [
  ...hosts.flatMap(({ hostname, state }, i): [string, string][] =>
    state === "absent" ? [] : [[`hosts[${i}].hostname`, hostname]],
  ),
  ...hooks.flatMap(({ site }, i): [string, string][] =>
    site?.hostname === undefined ? [] : [[`hooks[${i}].site.hostname`, site.hostname]],
  ),
];

/**
 * Cloudflare's universal certificate covers the zone and one label below it. A deeper name needs another one, without
 * which each delivery ends in a failed TLS handshake. An unreadable list is reported by `readFaults`.
 */
async function certificateFaults(api: CloudflareApi, settings: Settings, { id, name }: LiveZone): Promise<string[]> {
  const belowZone = (hostname: string): string =>
    hostname.endsWith(`.${name}`) ? hostname.slice(0, -name.length - 1) : "";
  const deeper = declaredNames(settings).filter(([, hostname]) => belowZone(hostname).includes("."));
  if (deeper.length === 0) return [];
  // Active ones: Cloudflare lists others only with status=all.
  type Pack = { readonly hosts: readonly string[] };
  const packs = await api.list<Pack>(`zones/${id}/ssl/certificate_packs`).catch(() => undefined);
  const covered = packs?.flatMap(({ hosts }) => hosts);
  return deeper
    .filter(([, hostname]) => !(covered ?? [hostname]).some((one) => one === hostname || one === wildcardOf(hostname)))
    .map(
      ([key, hostname]) =>
        `pushgate:${key} is "${hostname}", which no certificate of the zone covers: the universal one covers one label ` +
        `below ${name}. Use a name such as ${belowZone(hostname).replaceAll(".", "-")}.${name}, or ` +
        `order an advanced certificate for ${wildcardOf(hostname)} in Cloudflare's dashboard.`,
    );
}

const wildcardOf = (hostname: string): string => hostname.replace(/^[^.]+/, "*");

/** A rule as the API returns it, with what it computes. */
type ApiRule = Rule & { readonly version: unknown; readonly last_updated: unknown; readonly categories?: unknown };

/** In the API's spelling. */
const asSent = ({ actionParameters, ...rule }: Rule): Rule =>
  ({ ...rule, ...(actionParameters && { action_parameters: actionParameters }) }) as Rule;

/** The zone's own rules are sent as the API returned them, so that a rejection is about pushgate's. */
async function writeFaults(
  api: CloudflareApi,
  name: PhaseName,
  ours: readonly Rule[],
  zone: LiveZone,
): Promise<string[]> {
  const { id, name: title, description } = zone.phases[name];
  const { phase, permission, name: what } = phases[name];
  const path = `zones/${zone.id}/rulesets`;
  try {
    const live = id ? await api.get<{ rules?: ApiRule[] }>(`${path}/${id}`) : undefined;
    const carried = foreignRules(live?.rules ?? []).map(({ version, last_updated, categories, ...rule }) => rule);
    const rules = merged(name, ours.map(asSent), carried);
    const body = { name: title, description, kind: "zone", phase, rules };
    await (id ? api.dryRun("PUT", `${path}/${id}`, body) : api.dryRun("POST", path, body));
    return [];
  } catch (error) {
    const rejected = `the ${what} that \`up\` would write to ${zone.name} are rejected by Cloudflare`;
    return fault(rejected, permission, error, smallerBy[name]);
  }
}

/** All reasons why an `up` would fail at Cloudflare, as far as they can be known before it writes. */
export async function dryRunFaults(api: CloudflareApi, settings: Settings, zone: LiveZone): Promise<string[]> {
  if (hookHostnames(settings).length === 0) return [];
  const declared = rulesOf(settings);
  const changes = (name: PhaseName): boolean => {
    const { rules } = zone.phases[name];
    return declared[name].length > 0 && !isDeepStrictEqual(rules, merged(name, declared[name], rules));
  };
  const faults = [
    ...readFaults(api, zone),
    dnsFaults(api, zone, allHostnames(settings)),
    certificateFaults(api, settings, zone),
    ...phaseNames.filter(changes).map((name) => writeFaults(api, name, declared[name], zone)),
  ];
  return (await Promise.all(faults)).flat();
}

/** Throws CloudflareError, in previews only. A zone that is as declared costs three small reads. */
export async function tryOut(access: CloudflareAccess | undefined, settings: Settings, zone: LiveZone): Promise<void> {
  if (!pulumi.runtime.isDryRun()) return;
  if (access === undefined)
    return pulumi.log.warn(
      "cloudflare:apiToken is not in the stack's configuration, so this preview did not check whether the token may write " +
        "and Cloudflare accepts the rules. Run npx pulumi config set --secret cloudflare:apiToken.",
    );
  const faults = await dryRunFaults(cloudflareApi(access), settings, zone);
  if (faults.length > 0) throw new CloudflareError(faults);
  const first = !phaseNames.some((name) => zone.phases[name].rules.some(isOurs));
  if (hookHostnames(settings).length === 0 || !first) return;
  const withoutDryRun = [dns, certificates, bots].map((name) => `${name} Edit`);
  const unknown = permissions(settings).filter((one) => withoutDryRun.includes(one));
  void pulumi.log.info(
    `the token may write the rules and read the rest. Whether it has ${unknown.join(", ")} is known only when \`up\` ` +
      "writes, as Cloudflare has no dry run for those.",
  );
}
