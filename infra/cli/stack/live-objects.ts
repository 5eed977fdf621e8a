/** Finds the live object for a declared resource: one function for each type of resource. Reads only. */
import { X509Certificate } from "node:crypto";
import { tried } from "../../../service/tried.ts";
import { issuerOf } from "../../contract.ts";
import type { CloudflareApi } from "../../edge/api.ts";
import { associations, isDeleted } from "../../edge/presented.ts";

export type Resource = {
  readonly type: string; // Pulumi's type token, "cloudflare:index/ruleset:Ruleset"
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: a resource's inputs have as many shapes as there are resources
  readonly inputs: Readonly<Record<string, any>>;
};

export type Live = {
  readonly id?: string; // for `pulumi import`; absent if there is no live object
  readonly what?: string; // the live object in words
  readonly notes?: readonly string[]; // objects that cannot be adopted, and what happens to them
};

type Zone = { readonly id: string; readonly name: string };
/** `all`: every resource that the program declares, those in the state included. */
type Find = (api: CloudflareApi, resource: Resource, zone: Zone, all: readonly Resource[]) => Promise<Live>;

const newestFirst = <T>(objects: readonly T[], date: (object: T) => string | undefined): T[] =>
  objects.toSorted((a, b) => (date(b) ?? "").localeCompare(date(a) ?? ""));

const ruleset: Find = async (api, { inputs }, zone) => {
  const ofPhase = `zones/${zone.id}/rulesets/phases/${inputs.phase}/entrypoint`;
  const found = await api.get<{ id: string; name: string }>(ofPhase);
  return found ? { id: `zones/${zone.id}/${found.id}`, what: `ruleset "${found.name}"` } : {};
};

const dnsRecord: Find = async (api, { name, inputs }, zone, all) => {
  type DnsRecord = { id: string; name: string; type: string; content: string };
  const listed = await api.list<DnsRecord>(`zones/${zone.id}/dns_records?name=${encodeURIComponent(inputs.name)}`);
  const isAlike = ({ name, type }: { name?: string; type?: string }) => name === inputs.name && type === inputs.type;
  const alike = listed.filter(isAlike);
  const wanted = all.filter((one) => isAlike(one.inputs)).map((one) => one.inputs.content);
  const others = alike.filter(({ content }) => !wanted.includes(content));
  // A site's name has one record for each host, with the address in the resource's name; a hook's name has one record.
  const oneOfMany = name.endsWith(` ${inputs.content}`);
  // Cloudflare rejects a second record with this content. A record with another content would take half of all traffic.
  const found = alike.find(({ content }) => content === inputs.content) ?? (oneOfMany ? undefined : others[0]);
  const traffic = oneOfMany ? "visitors" : "deliveries";
  // Once for each name.
  const left = wanted.indexOf(inputs.content) > 0 ? [] : others.filter((one) => one !== found);
  const notes = left.map(({ content }) => `also leads to ${content}, which gets its share of ${traffic}: remove it`);
  return found ? { id: `${zone.id}/${found.id}`, what: `${found.type} record, ${found.content}`, notes } : { notes };
};

const originCertificate: Find = async (api, { inputs }, zone) => {
  type OriginCertificate = { id: string; hostnames?: string[]; expires_on?: string };
  const live = await api.list<OriginCertificate>(`certificates?zone_id=${zone.id}`);
  const text = (names: readonly string[] = []) => [...names].sort().join();
  // A certificate with other names too is not pushgate's, and would be revoked when it is replaced.
  const same = live.filter(({ hostnames }) => text(hostnames) === text(inputs.hostnames));
  const [found, ...more] = newestFirst(same, ({ expires_on }) => expires_on);
  if (found === undefined) return {};
  const notes = [
    "Cloudflare does not return the request it was made from, so `up` creates another one and then revokes it",
    ...more.map(({ id }) => `certificate ${id} has the same names and stays: revoke it after \`up\``),
  ];
  return { id: found.id, what: `origin certificate ${found.id}, until ${found.expires_on?.slice(0, 10)}`, notes };
};

const originPulls: Find = async (api, { name, inputs }, zone) => {
  const hostname: string = inputs.configs?.[0]?.hostname ?? name.replace(/ client certificate$/, "");
  const live = await api.get<{ cert_id?: string; status?: string }>(`${associations(zone.id)}/${hostname}`);
  if (live?.cert_id === undefined || isDeleted(live.status)) return {};
  return { id: `${zone.id}/${hostname}`, what: `client certificate ${live.cert_id} for ${hostname}` };
};

type ClientCertificate = { id: string; certificate: string; status?: string; uploaded_on?: string };

const isOwn = ({ certificate, status }: ClientCertificate, zone: Zone): boolean =>
  !isDeleted(status) && tried(() => new X509Certificate(certificate).issuer) === `CN=${issuerOf(zone.name)}`;

const clientCertificate: Find = async (api, _resource, zone) => {
  const live = await api.list<ClientCertificate>(`${associations(zone.id)}/certificates`);
  const own = live.filter((one) => isOwn(one, zone));
  const [found, ...more] = newestFirst(own, ({ uploaded_on }) => uploaded_on);
  if (found === undefined) return {};
  const notes = [
    "its key was only in the lost state, so `up` creates another one and deletes it; the hosts trust both meanwhile",
    ...more.map(({ id }) => `client certificate ${id} is pushgate's too and stays: delete it after \`up\``),
  ];
  return { id: `${zone.id}/${found.id}`, what: `client certificate ${found.id}`, notes };
};

const bots: Find = async (_api, _resource, zone) => ({ id: zone.id, what: "bot settings of the zone" });

const finders: Readonly<Record<string, Find>> = {
  "cloudflare:index/ruleset:Ruleset": ruleset,
  "cloudflare:index/dnsRecord:DnsRecord": dnsRecord,
  "cloudflare:index/originCaCertificate:OriginCaCertificate": originCertificate,
  "cloudflare:index/authenticatedOriginPulls:AuthenticatedOriginPulls": originPulls,
  "cloudflare:index/authenticatedOriginPullsHostnameCertificate:AuthenticatedOriginPullsHostnameCertificate":
    clientCertificate,
  "cloudflare:index/botManagement:BotManagement": bots,
};

export const adoptable = ({ type }: Pick<Resource, "type">): boolean => type in finders;

export const find: Find = (api, resource, ...rest) => finders[resource.type]!(api, resource, ...rest);
