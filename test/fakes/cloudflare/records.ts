/** The fake API's endpoints for the zone itself: the zone, DNS, and bots. */
import { isIPv4, isIPv6 } from "node:net";
import { normalizeCidr } from "cidr-tools";
import { v4, v6 } from "../../../infra/networks.ts";
import { byId, type Call, type Fields, now, paged, Refusal, type Reply, type Route } from "./refusal.ts";
import { type DnsRecord, idOf, withoutNulls, type ZoneState } from "./zone.ts";

const shownZone = ({ id, name, plan }: ZoneState): Fields => {
  const legacy_id = plan.replace("-bots", "");
  return { id, name, status: "active", type: "full", paused: false, plan: { id: idOf("plan", plan), legacy_id } };
};

let made = 0;
const newId = (): string => idOf(++made, Date.now());

export function zoneRoutes(zone: ZoneState): Route[] {
  const bots = "/zones/:zone/bot_management";
  const named = (name: string | null) => ([null, zone.name].includes(name) ? [shownZone(zone)] : []);
  return [
    ["GET", "/zones", "Zone Read", ({ query }) => paged(named(query.get("name")), query, 20)],
    ["GET", bots, "Bot Management Read", () => ({ result: zone.bot_management })],
    ["PUT", bots, "Bot Management Write", ({ body }) => putBots(zone, withoutNulls(body) as Fields)],
    ["GET", "/ips", undefined, () => ({ result: { ipv4_cidrs: v4(zone.ranges), ipv6_cidrs: v6(zone.ranges) } })],
    ...dnsRoutes(zone),
  ];
}

/** Fields left out keep their value. No program writes a setting of another plan than free. */
function putBots(zone: ZoneState, body: Fields): Reply {
  for (const [name, value] of Object.entries(body)) {
    if (zone.plan !== "free" || !["enable_js", "fight_mode", "is_robots_txt_managed"].includes(name))
      throw new Refusal(400, 10400, `zone not entitled to enable ${name.replaceAll("_", " ")}`);
    if (typeof value !== "boolean") throw new Refusal(400, 10401, `'${value}' is not a valid value for ${name}`);
  }
  // The free plan's JavaScript detections cannot be switched off, and the API accepts the attempt.
  Object.assign(zone.bot_management, body, { enable_js: true });
  return { result: zone.bot_management };
}

function dnsRoutes(zone: ZoneState): Route[] {
  const one = ({ params }: Call) => byId(zone.dns_records, params.id, 81044, "Record does not exist.");

  function write(body: Fields, before?: DnsRecord): Reply {
    const [type, given, name] = [body.type, body.content, body.name].map((value) => String(value ?? ""));
    const full = name === zone.name || name!.endsWith(`.${zone.name}`) ? name! : `${name}.${zone.name}`;
    // The API returns an IPv6 address in its short form.
    const content = type === "AAAA" && isIPv6(given!) ? normalizeCidr(given!) : given;
    if (type === "A" && !isIPv4(given!))
      throw new Refusal(400, 9005, "Content for A record must be a valid IPv4 address.");
    if (type === "AAAA" && !isIPv6(given!))
      throw new Refusal(400, 9006, "Content for AAAA record must be a valid IPv6 address.");
    if (!["A", "AAAA", "CNAME"].includes(type!)) throw new Refusal(400, 9004, `DNS record type ${type} is invalid.`);
    const others = zone.dns_records.filter((record) => record !== before && record.name === full);
    if (others.some((record) => record.type === type && record.content === content))
      throw new Refusal(400, 81058, "An identical record already exists.");
    if (others.some((record) => record.type === "CNAME" || type === "CNAME"))
      throw new Refusal(400, 81053, "An A, AAAA, or CNAME record with that host already exists.");
    const proxied = body.proxied === true;
    const record: DnsRecord = {
      ...{ id: before?.id ?? newId(), name: full, type: type!, content: content!, proxiable: true, proxied },
      ...{ ttl: proxied ? 1 : Number(body.ttl ?? 1), settings: body.settings ?? {}, meta: {} },
      ...{ comment: body.comment ?? null, tags: body.tags ?? [] },
      ...{ created_on: before?.created_on ?? now(), modified_on: now() },
    };
    if (before) zone.dns_records.splice(zone.dns_records.indexOf(before), 1, record);
    else zone.dns_records.push(record);
    return { result: record };
  }

  function list({ query }: Call): Reply {
    const fits = (record: DnsRecord) =>
      (["name", "type"] as const).every((field) => [null, record[field]].includes(query.get(field)));
    return paged(zone.dns_records.filter(fits), query);
  }

  function remove(call: Call): Reply {
    const { id } = one(call);
    zone.dns_records = zone.dns_records.filter((record) => record.id !== id);
    return { result: { id } };
  }

  const R = "/zones/:zone/dns_records";
  return [
    ["GET", R, "DNS Read", list],
    ["POST", R, "DNS Write", ({ body }) => write(body)],
    ["GET", `${R}/:id`, "DNS Read", (call) => ({ result: one(call) })],
    ["PUT", `${R}/:id`, "DNS Write", (call) => write(call.body, one(call))],
    ["DELETE", `${R}/:id`, "DNS Write", remove],
  ];
}
