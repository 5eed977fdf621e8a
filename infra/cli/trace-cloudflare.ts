/**
 * Cloudflare's security events of a delivery's ray, from the GraphQL Analytics API. Where they cannot be read, the reason:
 * the verdict is then less certain, and trace goes on.
 */
import { printable } from "../apply/report.ts";
import { ApiRefusal, type CloudflareApi, cloudflareApi, vendorUrl } from "../edge/api.ts";
import { isOurs } from "../edge/zone/phase.ts";
import type { Answer, SecurityEvent } from "../trace/evidence.ts";
import { readConfig, UserError } from "./stack.ts";

export type Looked = { readonly cloudflare?: readonly SecurityEvent[]; readonly notLooked?: string };

/** Seconds for all requests together. */
const patience = 4;
/** Seconds by which the two clocks may differ: a window that begins too early is rejected. */
const skew = 60;
/** More events than one request leaves. */
const most = 50;
const longestText = 200;

/** What the plan lets a token read, in seconds. */
type Limits = { readonly enabled: boolean; readonly maxDuration: number; readonly notOlderThan: number };
type Zones<T> = { readonly viewer?: { readonly zones?: readonly T[] } } | null | undefined;
type Row = Readonly<Record<"action" | "source" | "ruleId" | "description", unknown>>;

const limitsQuery = `query ($zone: string!) {
  viewer { zones(filter: { zoneTag: $zone }) {
    settings { firewallEventsAdaptive { enabled maxDuration notOlderThan } }
  } }
}`;
const eventsQuery = `query ($zone: string!, $ray: string!, $from: Time!, $to: Time!) {
  viewer { zones(filter: { zoneTag: $zone }) {
    firewallEventsAdaptive(
      filter: { rayName: $ray, datetime_geq: $from, datetime_leq: $to }
      limit: ${most}
      orderBy: [datetime_DESC]
    ) { action source ruleId description }
  } }
}`;

/** The phase whose rules have the ids that events of this source name. */
const phases: Readonly<Record<string, string>> = {
  firewallcustom: "http_request_firewall_custom",
  ratelimit: "http_ratelimit",
};

/** Rule names are the zone's, but other texts of an event are a stranger's: a line of its own would look like trace's. */
const text = (value: unknown): string =>
  printable(String(value ?? ""))
    .replace(/\s+/g, " ")
    .slice(0, longestText);

type Rule = { readonly id: string; readonly ref?: string; readonly description?: string };

async function withOwner(api: CloudflareApi, zone: string, events: readonly SecurityEvent[]): Promise<SecurityEvent[]> {
  const wanted = [...new Set(events.flatMap(({ source }) => phases[source] ?? []))];
  const read = wanted.map((phase) => api.get<{ rules?: Rule[] }>(`zones/${zone}/rulesets/phases/${phase}/entrypoint`));
  const rules = (await Promise.all(read)).flatMap((ruleset) => ruleset?.rules ?? []);
  return events.map((event) => {
    const rule = rules.find(({ id }) => id === event.rule);
    if (rule === undefined) return event;
    const description = event.description || text(rule.description);
    return { ...event, description, owner: isOurs(rule) ? "pushgate" : "zone" };
  });
}

async function eventsOf(api: CloudflareApi, zoneName: string, ray: string): Promise<Looked> {
  const [zone] = await api.list<{ id: string }>(`zones?name=${encodeURIComponent(zoneName)}`);
  if (zone === undefined) return { notLooked: `cloudflare:apiToken cannot read a zone ${zoneName}` };
  type Settings = { readonly settings?: { readonly firewallEventsAdaptive?: Limits } };
  const settings = await api.query<Zones<Settings>>(limitsQuery, { zone: zone.id });
  const limits = settings?.viewer?.zones?.[0]?.settings?.firewallEventsAdaptive;
  if (limits?.enabled !== true) return { notLooked: "the zone's plan has no security events" };
  const seconds = Math.min(limits.maxDuration, limits.notOlderThan) - skew;
  const [to, from] = [Date.now(), Date.now() - seconds * 1000].map((at) => new Date(at).toISOString()) as [
    string,
    string,
  ];
  type Events = { readonly firewallEventsAdaptive?: readonly Row[] };
  const found = await api.query<Zones<Events>>(eventsQuery, { zone: zone.id, ray, from, to });
  const events = (found?.viewer?.zones?.[0]?.firewallEventsAdaptive ?? []).map(
    ({ action, source, ruleId, description }): SecurityEvent => ({
      source: text(source).toLowerCase(),
      action: text(action).toLowerCase().replaceAll("_", ""),
      rule: text(ruleId),
      description: text(description),
    }),
  );
  return { cloudflare: await withOwner(api, zone.id, events) };
}

const permission = "Give cloudflare:apiToken the permission Zone > Analytics: Read";

/** Why the API did not answer, in one line. */
function reason(error: unknown): string {
  if (error instanceof UserError) return text(error.message);
  if (!(error instanceof ApiRefusal)) throw error;
  const forbidden = error.status === 403 || /not authorized|does not have access/.test(error.message);
  return `the API: ${text(error.message)}${forbidden ? `. ${permission}` : ""}`;
}

type Access = {
  readonly token?: string | undefined;
  readonly baseUrl?: string | undefined;
  readonly zone?: string | undefined;
};

export async function accessOf(stack: readonly string[]): Promise<Access> {
  const config = await readConfig(stack, "--show-secrets");
  const [token, baseUrl, zone] = ["cloudflare:apiToken", "cloudflare:baseUrl", "pushgate:zone"].map(
    (key) => config[key]?.value,
  );
  return { token, baseUrl, zone };
}

/** `access` is not called where the answer has no ray, or comes from the host. */
export async function atCloudflare(
  answer: Answer | undefined,
  access: () => Promise<Access>,
  seconds = patience,
): Promise<Looked> {
  const { headers } = answer ?? { headers: {} as Answer["headers"] };
  if (headers["x-served-by"] !== undefined) return { notLooked: "it let the request pass: X-Served-By names the host" };
  const [, ray] = /^([0-9a-f]{16})(-\w+)?$/i.exec(headers["cf-ray"] ?? "") ?? [];
  if (ray === undefined)
    return { notLooked: "the answer has no ray. Add --status and --header 'cf-ray: …', as the git host shows them" };
  try {
    const { token, baseUrl = vendorUrl, zone } = await access();
    if (token === undefined || zone === undefined)
      return { notLooked: "cloudflare:apiToken or pushgate:zone is not set" };
    const api = cloudflareApi({ baseUrl, token }, AbortSignal.timeout(seconds * 1000));
    return await eventsOf(api, zone, ray.toLowerCase());
  } catch (error) {
    return { notLooked: reason(error) };
  }
}
