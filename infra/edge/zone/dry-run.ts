/** What a run tries before `up` writes (decision 009). Permissions are named as on the dashboard's page for tokens. */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import { allHostnames } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { driftMessage } from "../../contract.ts";
import { ApiError, type CloudflareApi, explained } from "../api.ts";
import { records } from "../dns.ts";
import { rulesOf } from "./fits.ts";
import { CloudflareError, type LiveZone } from "./live-zone.ts";
import { foreignRules, merged, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

const smaller =
  "If there are too many rules, remove some of the zone's own or choose a larger plan; hosts with the same originPort take one rule together. If an expression is too long, write fewer, wider ranges in hooks[].sources.";

type DnsRecord = Readonly<Record<"name" | "type" | "content", string>>;

/** A hostname often exists before pushgate, such as a site's that another service serves, or a hook's of a tunnel. */
const cnameFaults = (live: readonly DnsRecord[]): string[] =>
  live
    .filter(({ type }) => type === "CNAME")
    .map(
      ({ name, content }) =>
        `${name} is a CNAME to ${content}, and a CNAME allows no address beside it. Remove the CNAME, then run npx pulumi up, which makes the name lead to the hosts.`,
    );

/** Reports addresses beside the declared ones, which get their share of the requests, but for one that `up` replaces. */
function reportOthers(declared: readonly DnsRecord[], live: readonly DnsRecord[]): void {
  const alike = (records: readonly DnsRecord[], { name, type }: DnsRecord) =>
    records.filter((one) => one.name === name && one.type === type).map(({ content }) => content);
  for (const one of live.filter(({ type }) => type === "A" || type === "AAAA")) {
    const [wanted, there] = [alike(declared, one), alike(live, one)];
    const isReplaced = wanted.length > 0 && !wanted.some((content) => there.includes(content));
    if (wanted.includes(one.content) || isReplaced) continue;
    const item = `${one.name} ${one.type}`;
    void pulumi.log.warn(
      `${item}: another record leads to ${one.content}, which gets its share of the requests. Remove it at Cloudflare, unless this run does.`,
    );
    const drift = { item, kind: "undeclared", before: one.content, after: null };
    void pulumi.log.debug(driftMessage({ host: null, layer: "DNS records", ...drift }));
  }
}

const wildcardOf = (hostname: string): string => hostname.replace(/^[^.]+/, "*");

/** A name two labels below the zone needs a certificate, without which each delivery ends in a failed TLS handshake. */
async function certificateFaults(api: CloudflareApi, { id, name }: LiveZone, hostnames: readonly string[]) {
  const belowZone = (hostname: string): string => hostname.slice(0, -name.length - 1);
  const deeper = hostnames.filter((hostname) => belowZone(hostname).includes("."));
  if (deeper.length === 0) return [];
  type Pack = { readonly hosts: readonly string[] };
  const packs = await api.list<Pack>(`zones/${id}/ssl/certificate_packs`).catch(() => undefined);
  const covered = packs?.flatMap(({ hosts }) => hosts) ?? deeper;
  return deeper
    .filter((hostname) => !covered.includes(hostname) && !covered.includes(wildcardOf(hostname)))
    .map(
      (hostname) =>
        `${hostname} has no certificate of the zone: the universal one covers one label below ${name}. Use a name such as ${belowZone(hostname).replaceAll(".", "-")}.${name}, or order an advanced certificate for ${wildcardOf(hostname)} in Cloudflare's dashboard.`,
    );
}

type ApiRule = Rule & { readonly version: unknown; readonly last_updated: unknown; readonly categories?: unknown };

const asSent = ({ actionParameters, ...rule }: Rule): Rule =>
  ({ ...rule, ...(actionParameters && { action_parameters: actionParameters }) }) as Rule;

/** The zone's own rules are sent as the API returned them, so that a rejection is about pushgate's. */
async function writeFaults(api: CloudflareApi, name: PhaseName, ours: readonly Rule[], zone: LiveZone) {
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
    const isContent = error instanceof ApiError && error.status === 400;
    if (isContent) return [`${rejected}: ${error.message}. ${smaller}`];
    const fault = explained(rejected, `${permission} Edit`, error);
    if (!pulumi.runtime.isDryRun() || !(error instanceof ApiError) || error.status !== 403) return [fault];
    // A preview shows drift to a token that only reads, too. `up` then fails before anything changes.
    void pulumi.log.warn(fault);
    return [];
  }
}

/** Throws CloudflareError. A zone that is as declared costs five small reads. */
export async function tryOut(api: CloudflareApi, settings: Settings, zone: LiveZone): Promise<void> {
  const names = allHostnames(settings);
  if (names.length === 0) return;
  const declared = rulesOf(settings);
  const changes = (name: PhaseName): boolean => {
    const { rules } = zone.phases[name];
    return declared[name].length > 0 && !isDeepStrictEqual(rules, merged(name, declared[name], rules));
  };
  const unread = (what: string, permission: string) => (error: unknown) => [
    explained(`the ${what} of ${zone.name} cannot be read`, `${permission} Edit`, error),
  ];
  const inZone = `zones/${zone.id}`;
  const canRead = (path: string, what: string) => api.get(path).then(() => [], unread(what, "SSL and Certificates"));
  const read = (type: string) => api.list<DnsRecord>(`${inZone}/dns_records?type=${type}`);
  const all = Promise.all(["A", "AAAA", "CNAME"].map(read));
  const live = all.then((found) => found.flat().filter(({ name }) => names.includes(name)));
  const tried = [
    canRead(`certificates?zone_id=${zone.id}`, "origin certificates"),
    canRead(`${inZone}/origin_tls_client_auth/hostnames/certificates`, "client certificates"),
    live.then(cnameFaults, unread("DNS records", "DNS")),
    certificateFaults(api, zone, names),
    ...phaseNames.filter(changes).map((name) => writeFaults(api, name, declared[name], zone)),
  ];
  const faults = (await Promise.all(tried)).flat();
  if (faults.length > 0) throw new CloudflareError(faults);
  reportOthers(records(settings), await live);
}
