/** Cloudflare's security events of deliveries, by the rays of their answers, or why they cannot be read. */
import { printable } from "../../../service/printable.ts";
import { vendorUrl } from "../../contract.ts";
import { ApiError, type CloudflareApi, cloudflareApi, zoneNamed } from "../../edge/api.ts";
import { isOurs, phases } from "../../edge/zone/phase.ts";
import type { Answer, Evidence, SecurityEvent } from "../../trace/evidence.ts";
import { UserError } from "../../user-error.ts";
import type { Access } from "../stack.ts";

export type Looked = Pick<Evidence, "cloudflare" | "notLooked">;

/** Seconds by which this computer's clock may differ: a time range that begins too early is rejected. */
const skew = 60;

const zoneQuery = (variables: string, fields: string): string =>
  `query ($zone: string!${variables}) { viewer { zones(filter: { zoneTag: $zone }) { ${fields} } } }`;
const limitsQuery = zoneQuery("", "settings { firewallEventsAdaptive { enabled maxDuration notOlderThan } }");
const eventsQuery = zoneQuery(
  ", $rays: [string!]!, $from: Time!, $to: Time!, $limit: uint64!",
  `firewallEventsAdaptive(
    filter: { rayName_in: $rays, datetime_geq: $from, datetime_leq: $to }, limit: $limit, orderBy: [datetime_DESC]
  ) { action source ruleId description rayName }`,
);
/** How wide a time range may be and how long events are kept, in seconds, as the plan has it. */
type Limits = { readonly enabled: boolean; readonly maxDuration: number; readonly notOlderThan: number };
type Row = Readonly<Record<"action" | "source" | "ruleId" | "description" | "rayName", unknown>>;
type ZoneData = {
  readonly settings?: { readonly firewallEventsAdaptive?: Limits };
  readonly firewallEventsAdaptive?: readonly Row[];
};

async function inZone(api: CloudflareApi, query: string, variables: object): Promise<ZoneData | undefined> {
  const found = await api.query<{ viewer?: { zones?: ZoneData[] } } | null>(query, { ...variables });
  return found?.viewer?.zones?.[0];
}

/** One line: a text with a line break could look like a line of trace's own. */
const text = (value: unknown): string => printable(String(value ?? "").replace(/\s+/g, " ")).slice(0, 200);

type RayEvent = SecurityEvent & { readonly ray: string };

/** The phase whose rules have the ids that events of this source name. */
const phaseOf: Readonly<Record<string, string>> = { firewallcustom: phases.custom.phase, ratelimit: "http_ratelimit" };

/** Adds whose rule each event names. Without the permission to read rules, changes no event. */
async function withOwner(api: CloudflareApi, zone: string, events: readonly RayEvent[]): Promise<readonly RayEvent[]> {
  type Rule = { readonly id: string; readonly ref?: string; readonly description?: string };
  const wanted = [...new Set(events.flatMap(({ source }) => phaseOf[source] ?? []))];
  const read = wanted.map((phase) => api.get<{ rules?: Rule[] }>(`zones/${zone}/rulesets/phases/${phase}/entrypoint`));
  const rulesets = await Promise.all(read).catch((error: unknown) => {
    if (!(error instanceof ApiError)) throw error;
    return [];
  });
  const rules = rulesets.flatMap((ruleset) => ruleset?.rules ?? []);
  return events.map((event) => {
    const rule = rules.find(({ id }) => id === event.rule);
    if (rule === undefined) return event;
    const description = event.description || text(rule.description);
    return { ...event, description, owner: isOurs(rule) ? "pushgate" : "zone" };
  });
}

/** Events of these rays as far back as one query reaches, or why there are none. */
async function eventsOf(api: CloudflareApi, name: string, rays: readonly string[]) {
  const found = await zoneNamed(api, name);
  if (found === undefined) return `cloudflare:apiToken cannot read a zone ${name}`;
  const zone = found.id;
  const limits = (await inZone(api, limitsQuery, { zone }))?.settings?.firewallEventsAdaptive;
  const seconds = Math.min(Number(limits?.maxDuration), Number(limits?.notOlderThan)) - skew;
  if (limits?.enabled !== true || !(seconds > 0)) return "the zone's plan has no security events";
  const to = Date.now() + skew * 1000;
  const range = { from: new Date(to - seconds * 1000).toISOString(), to: new Date(to).toISOString() };
  // One request leaves fewer events than 50, and 10,000 are the largest page.
  const limit = Math.min(rays.length * 50, 10_000);
  const rows = (await inZone(api, eventsQuery, { zone, rays, limit, ...range }))?.firewallEventsAdaptive ?? [];
  const events = rows.map((row) => ({
    source: text(row.source).toLowerCase(),
    action: text(row.action).toLowerCase().replaceAll("_", ""),
    ...{ rule: text(row.ruleId), description: text(row.description), ray: text(row.rayName) },
  }));
  return withOwner(api, zone, events);
}

async function look(rays: readonly string[], access: () => Promise<Access>, seconds: number) {
  try {
    const { token, baseUrl = vendorUrl, zone = "" } = await access();
    if (token === undefined)
      return "cloudflare:apiToken is not set. Run: npx pulumi config set --secret cloudflare:apiToken";
    return await eventsOf(cloudflareApi({ baseUrl, token }, AbortSignal.timeout(seconds * 1000)), zone, rays);
  } catch (error) {
    if (error instanceof UserError) return text(error.message);
    if (!(error instanceof ApiError)) throw error;
    const isForbidden = error.status === 403 || /not authorized|does not have access/.test(error.message);
    const permission = isForbidden ? ". Give cloudflare:apiToken the permission Analytics Read." : "";
    return `the API: ${text(error.message)}${permission}`;
  }
}

function rayOf(answer: Answer | undefined): { ray: string } | { notLooked: string } {
  if (answer?.headers["x-served-by"]) return { notLooked: "it let the request pass: X-Served-By names the host" };
  const [, ray] = /^([0-9a-f]{16})(-\w+)?$/i.exec(answer?.headers["cf-ray"] ?? "") ?? [];
  if (ray !== undefined) return { ray: ray.toLowerCase() };
  return { notLooked: "the answer has no ray. Add --status and --header 'cf-ray: …', as the git host shows them" };
}

/** In the order of the answers, by at most five requests for all. `access` is called only if there is a ray to look for. */
export async function atCloudflare(
  answers: readonly (Answer | undefined)[],
  access: () => Promise<Access>,
  seconds = 4, // for all requests together
): Promise<Looked[]> {
  const all = answers.map(rayOf);
  const rays = all.flatMap((one) => ("ray" in one ? [one.ray] : []));
  const found = rays.length === 0 ? [] : await look(rays, access, seconds);
  return all.map((one) => {
    if (!("ray" in one)) return one;
    if (typeof found === "string") return { notLooked: found };
    return { cloudflare: found.filter(({ ray }) => ray === one.ray).map(({ ray: _, ...event }) => event) };
  });
}
