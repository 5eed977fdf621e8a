/**
 * What exists at the edge of what a stack declares and does not hold: by type of resource, which live object is the one
 * that is meant, and under which id the provider imports it. Reads only.
 */
import { X509Certificate } from "node:crypto";
import type { EdgeApi } from "../edge/api.ts";

/** A resource as the program declares it. */
export type Missing = {
  /** As the engine names it, "cloudflare:index/ruleset:Ruleset". */
  readonly type: string;
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: a resource's inputs have as many shapes as there are resources
  readonly inputs: Readonly<Record<string, any>>;
};

export type Found = {
  /** What `pulumi import` takes; absent where there is nothing to take over. */
  readonly id?: string;
  /** A person's word for the live object. */
  readonly what?: string;
  /** What can't be adopted, and what becomes of it. */
  readonly notes: readonly string[];
};

/** `declared`: all that the program declares, what the state holds already among it. */
type Find = (api: EdgeApi, missing: Missing, zone: Zone, declared: readonly Missing[]) => Promise<Found>;
export type Zone = { readonly id: string; readonly name: string };

const nothing: Found = { notes: [] };

type Ruleset = { id: string; name: string; kind: string; phase: string };

const ruleset: Find = async (api, { inputs }, zone) => {
  // By cursor, so page and per_page say nothing here; a zone has about ten.
  const live = (await api.get<Ruleset[]>(`zones/${zone.id}/rulesets`)) ?? [];
  const found = live.find(({ kind, phase }) => kind === "zone" && phase === inputs.phase);
  return found ? { id: `zones/${zone.id}/${found.id}`, what: `ruleset "${found.name}"`, notes: [] } : nothing;
};

type DnsRecord = { id: string; name: string; type: string; content: string };

const dnsRecord: Find = async (api, { name, inputs }, zone, declared) => {
  const named = await api.list<DnsRecord>(`zones/${zone.id}/dns_records?name=${encodeURIComponent(inputs.name)}`);
  const live = named.filter(({ name }) => name === inputs.name);
  const alike = live.filter(({ type }) => type === inputs.type);
  const wanted = declared
    .filter((one) => one.inputs.name === inputs.name && one.inputs.type === inputs.type)
    .map((one) => one.inputs.content);
  const others = alike.filter(({ content }) => !wanted.includes(content));
  // A site's name has a record for each machine, which says so in the resource's name; a hook's has one.
  const oneOfMany = name.endsWith(` ${inputs.content}`);
  // The one that says the same cannot be made a second time; any other would stay beside ours and take half of all deliveries.
  const found = alike.find(({ content }) => content === inputs.content) ?? (oneOfMany ? undefined : others[0]);
  const whose = oneOfMany ? "visitors" : "deliveries";
  // Said once for a name.
  const left = wanted.indexOf(inputs.content) > 0 ? [] : others.filter((one) => one !== found);
  const notes = [
    ...left.map(({ content }) => `also leads to ${content}, which stays and gets its share of ${whose}: remove it`),
    ...live
      .filter(({ type }) => type === "CNAME")
      .map(({ content }) => `is a CNAME to ${content}, beside which there can be no address: remove it`),
  ];
  if (found === undefined) return { notes };
  return { id: `${zone.id}/${found.id}`, what: `${found.type} record, ${found.content}`, notes };
};

type OriginCertificate = { id: string; hostnames?: string[]; expires_on?: string };

const originCertificate: Find = async (api, { inputs }, zone) => {
  const live = await api.list<OriginCertificate>(`certificates?zone_id=${zone.id}`);
  const same = (names: readonly string[] = []) => [...names].sort().join() === [...inputs.hostnames].sort().join();
  // One that is for other names, too, is somebody else's: it would be revoked when it is replaced.
  const ours = live.filter(({ hostnames }) => same(hostnames));
  const [found, ...more] = ours.sort((a, b) => (b.expires_on ?? "").localeCompare(a.expires_on ?? ""));
  if (found === undefined) return nothing;
  const one = "the edge does not give back the request it was made from, so `up` has another made and then revokes it";
  return {
    id: found.id,
    what: `origin certificate ${found.id}, until ${found.expires_on?.slice(0, 10)}`,
    notes: [
      one,
      ...more.map(({ id }) => `certificate ${id} is for it, too, and stays: revoke it when \`up\` is through`),
    ],
  };
};

type Pull = { hostname: string; cert_id?: string; status?: string; enabled?: boolean };
const pullsOf = (zone: Zone): string => `zones/${zone.id}/origin_tls_client_auth/hostnames`;
const standing = (pull: Pull | undefined): pull is Pull =>
  pull?.cert_id !== undefined && !["deleted", "pending_deletion"].includes(pull.status ?? "");

const pull: Find = async (api, { name, inputs }, zone) => {
  const hostname: string = inputs.configs?.[0]?.hostname ?? name.replace(/ origin pulls$/, "");
  const live = await api.get<Pull>(`${pullsOf(zone)}/${hostname}`);
  if (!standing(live)) return nothing;
  return { id: `${zone.id}/${hostname}`, what: `origin pulls with certificate ${live.cert_id}`, notes: [] };
};

type PullCertificate = { id: string; certificate: string; status?: string; uploaded_on?: string };

/** Whether pushgate made it, for this zone: another's is not ours to replace. */
function made({ certificate, status }: PullCertificate, zone: Zone): boolean {
  if (["deleted", "pending_deletion"].includes(status ?? "")) return false;
  try {
    return new X509Certificate(certificate).issuer === `CN=pushgate origin pulls of ${zone.name}`;
  } catch {
    return false;
  }
}

const pullCertificate: Find = async (api, _missing, zone) => {
  const live = (await api.list<PullCertificate>(`${pullsOf(zone)}/certificates`)).filter((one) => made(one, zone));
  const [found, ...more] = live.sort((a, b) => (b.uploaded_on ?? "").localeCompare(a.uploaded_on ?? ""));
  if (found === undefined) return nothing;
  return {
    id: `${zone.id}/${found.id}`,
    what: `client certificate ${found.id}`,
    notes: [
      "its key was in the lost state alone, so `up` makes another and deletes it; the machines trust both meanwhile",
      ...more.map(
        ({ id }) => `client certificate ${id} is pushgate's, too, and stays: delete it when \`up\` is through`,
      ),
    ],
  };
};

const bots: Find = async (_api, _missing, zone) => ({ id: zone.id, what: "bot settings of the zone", notes: [] });

const finders: Readonly<Record<string, Find>> = {
  "cloudflare:index/ruleset:Ruleset": ruleset,
  "cloudflare:index/dnsRecord:DnsRecord": dnsRecord,
  "cloudflare:index/originCaCertificate:OriginCaCertificate": originCertificate,
  "cloudflare:index/authenticatedOriginPulls:AuthenticatedOriginPulls": pull,
  "cloudflare:index/authenticatedOriginPullsHostnameCertificate:AuthenticatedOriginPullsHostnameCertificate":
    pullCertificate,
  "cloudflare:index/botManagement:BotManagement": bots,
};

export const adoptable = ({ type }: Pick<Missing, "type">): boolean => type in finders;

/** Throws ApiRefusal. */
export const find: Find = (api, missing, ...rest) => finders[missing.type]!(api, missing, ...rest);
