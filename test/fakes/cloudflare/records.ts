/** The fake API's endpoints for the zone itself: the zone, DNS, and bots. */
import { isIPv4, isIPv6 } from "node:net";
import type { Plan } from "../../../infra/config/settings.ts";
import { networks, v4, v6 } from "../../../infra/networks.ts";
import { type Call, type Fields, found, now, paged, Refusal, type Reply, type Route } from "./refusal.ts";
import { type DnsRecord, idOf, withoutNulls, type ZoneState } from "./zone.ts";

const planNames: Record<Plan, [legacyId: string, name: string]> = {
  free: ["free", "Free Website"],
  pro: ["pro", "Pro Website"],
  business: ["business", "Business Website"],
  enterprise: ["enterprise", "Enterprise Website"],
  "enterprise-bots": ["enterprise", "Enterprise Website"],
};

function shownZone({ id, name, plan }: ZoneState): Fields {
  const [legacy_id, planName] = planNames[plan];
  const at = "2026-01-01T00:00:00Z";
  return {
    ...{ id, name, status: "active", type: "full", paused: false, development_mode: 0 },
    plan: { id: idOf("plan", plan), legacy_id, name: planName },
    account: { id: idOf("account"), name: "example" },
    name_servers: ["a.ns.cloudflare.com", "b.ns.cloudflare.com"],
    ...{ created_on: at, modified_on: at, activated_on: at },
  };
}

let made = 0;
const newId = (): string => idOf(++made, Date.now());

export function zoneRoutes(zone: ZoneState): Route[] {
  const Z = "/zones/:zone";
  return [
    [
      "GET",
      "/zones",
      "Zone Read",
      ({ query }) => paged([null, zone.name].includes(query.get("name")) ? [shownZone(zone)] : [], query, 20),
    ],
    ["GET", Z, "Zone Read", () => ({ result: shownZone(zone) })],
    [
      "GET",
      "/ips",
      undefined,
      () => {
        const { cidrs } = networks.cloudflare;
        return { result: { etag: idOf(cidrs), ipv4_cidrs: v4(cidrs), ipv6_cidrs: v6(cidrs) } };
      },
    ],
    ["GET", `${Z}/bot_management`, "Bot Management Read", () => ({ result: zone.bot_management })],
    ["PUT", `${Z}/bot_management`, "Bot Management Write", ({ body }) => putBots(zone, withoutNulls(body) as Fields)],
    ...dnsRoutes(zone),
  ];
}

const everywhere = [
  "ai_bots_protection",
  "crawler_protection",
  "enable_js",
  "is_robots_txt_managed",
  "content_bots_protection",
];
const superBots = [
  "sbfm_definitely_automated",
  "sbfm_verified_bots",
  "sbfm_static_resource_protection",
  "optimize_wordpress",
];
const botFields: Record<Plan, readonly string[]> = {
  free: [...everywhere, "fight_mode"],
  pro: [...everywhere, ...superBots],
  business: [...everywhere, ...superBots, "sbfm_likely_automated"],
  enterprise: [...everywhere, ...superBots, "sbfm_likely_automated"],
  "enterprise-bots": [...everywhere, "auto_update_model", "bm_cookie_enabled", "suppress_session_score"],
};

/** Fields left out keep their value. */
function putBots(zone: ZoneState, body: Fields): Reply {
  for (const [name, value] of Object.entries(body)) {
    if (!botFields[zone.plan].includes(name))
      throw new Refusal(400, 10400, `zone not entitled to enable ${name.replace(/^sbfm_/, "").replaceAll("_", " ")}`);
    const words = name === "sbfm_verified_bots" ? ["allow", "block"] : ["allow", "block", "managed_challenge"];
    const isWord = /^sbfm_(definitely|likely|verified)/.test(name);
    const fits = isWord ? words.includes(String(value)) : /_protection$/.test(name) ? true : typeof value === "boolean";
    if (!fits) throw new Refusal(400, 10401, `'${String(value)}' is not a valid value for ${name}`);
  }
  // The free plan's JavaScript detections cannot be switched off, and the API accepts the attempt.
  Object.assign(zone.bot_management, body, zone.plan === "free" ? { enable_js: true } : {});
  return { result: zone.bot_management };
}

function dnsRoutes(zone: ZoneState): Route[] {
  const byId = ({ params }: Call) =>
    found(
      zone.dns_records.find(({ id }) => id === params.id),
      81044,
      "Record does not exist.",
    );
  const R = "/zones/:zone/dns_records";

  function write(body: Fields, before?: DnsRecord): Reply {
    const type = String(body.type ?? "");
    const content = String(body.content ?? "");
    const written = String(body.name ?? "").toLowerCase();
    const name = written === "@" ? zone.name : written;
    const full = name === zone.name || name.endsWith(`.${zone.name}`) ? name : `${name}.${zone.name}`;
    if (type === "A" && !isIPv4(content))
      throw new Refusal(400, 9005, "Content for A record must be a valid IPv4 address.");
    if (type === "AAAA" && !isIPv6(content))
      throw new Refusal(400, 9006, "Content for AAAA record must be a valid IPv6 address.");
    if (!["A", "AAAA", "CNAME", "TXT", "MX", "CAA"].includes(type))
      throw new Refusal(400, 9004, `DNS record type ${type} is invalid.`);
    const others = zone.dns_records.filter((record) => record !== before && record.name === full);
    if (others.some((record) => record.type === type && record.content === content))
      throw new Refusal(400, 81058, "An identical record already exists.");
    if (others.some((record) => (record.type === "CNAME" || type === "CNAME") && record.type !== "TXT"))
      throw new Refusal(400, 81053, "An A, AAAA, or CNAME record with that host already exists.");
    const proxiable = ["A", "AAAA", "CNAME"].includes(type);
    const proxied = body.proxied === true;
    if (proxied && !proxiable) throw new Refusal(400, 9004, `This record type cannot be proxied.`);
    const ttl = proxied ? 1 : Number(body.ttl ?? 1);
    if (ttl !== 1 && (ttl < 60 || ttl > 86400))
      throw new Refusal(400, 9021, "TTL must be between 60 and 86400 seconds, or 1.");
    const record: DnsRecord = {
      ...{ id: before?.id ?? newId(), name: full, type, content, proxiable, proxied, ttl },
      ...{ settings: body.settings ?? {}, meta: {}, comment: body.comment ?? null, tags: body.tags ?? [] },
      ...{ created_on: before?.created_on ?? now(), modified_on: now() },
    };
    if (before) zone.dns_records.splice(zone.dns_records.indexOf(before), 1, record);
    else zone.dns_records.push(record);
    return { result: record };
  }

  return [
    [
      "GET",
      R,
      "DNS Read",
      ({ query }) => {
        const matching = zone.dns_records.filter((record) =>
          (["name", "type", "content"] as const).every((field) => [null, record[field]].includes(query.get(field))),
        );
        return paged(matching, query);
      },
    ],
    ["POST", R, "DNS Write", ({ body }) => write(body)],
    ["GET", `${R}/:id`, "DNS Read", (call) => ({ result: byId(call) })],
    ["PUT", `${R}/:id`, "DNS Write", (call) => write(call.body, byId(call))],
    [
      "DELETE",
      `${R}/:id`,
      "DNS Write",
      (call) => {
        const gone = byId(call);
        zone.dns_records.splice(zone.dns_records.indexOf(gone), 1);
        return { result: { id: gone.id } };
      },
    ],
  ];
}
