/** The fake GraphQL Analytics API: what the data plane records, and every rejection of a query that trace could send. */
import { beforeEach, describe, expect, test } from "vitest";
import { graphqlRoutes } from "./graphql.ts";
import type { Call } from "./refusal.ts";
import { record, securityLog } from "./security-log.ts";
import { declaredZone, emptyZone } from "./zone.ts";

const rules = [{ ref: "rest", action: "block", expression: "ssl", description: "nothing else" }];
const zone = declaredZone(emptyZone("example.org", "free"), { http_request_firewall_custom: rules }, []);

beforeEach(() => void securityLog(zone).splice(0));

const hour = 3_600_000;
const ago = (hours: number): string => new Date(Date.now() - hours * hour).toISOString();
const query = `query ($zone: string!, $rays: [string!]!, $from: Time!, $to: Time!, $limit: uint64!) { viewer {
  zones(filter: { zoneTag: $zone }) { firewallEventsAdaptive(
    filter: { rayName_in: $rays, datetime_geq: $from, datetime_leq: $to }, limit: $limit, orderBy: [datetime_DESC]
  ) { source ruleId description } } } }`;
const usual = { zone: zone.id, rays: ["a".repeat(16)], from: ago(20), to: ago(0), limit: 10 };
const ask = async (change: object = {}, as = query, holds = true) =>
  graphqlRoutes(zone)[0]![3]({
    body: { query: as, variables: { ...usual, ...change } },
    holds: () => holds,
  } as never as Call);

test.each<[string, RegExp, object, query?: string]>([
  ["a limit of zero", /^limit must be positive number and not greater than 10000$/, { limit: 0 }],
  ["a limit beyond a page", /^limit must be positive/, { limit: 10_001 }],
  ["an unknown field", /^unknown field "ref"$/, {}, query.replace("ruleId", "ref")],
  ["an unknown data set", /^unknown field "firewallEvents"$/, {}, query.replace("Adaptive(", "(")],
  ["an unknown column of the filter", /unknown field "ray_in" of the filter/, {}, query.replace("rayName", "ray")],
  ["an unknown order", /unknown order/, {}, query.replace("_DESC", "")],
  ["a time that is none", /variable "\$from" is no Time!/, { from: "yesterday" }],
  ["a range wider than the plan's", /cannot request a time range wider than 1d$/, { from: ago(25) }],
  ["a time before the plan's", /^cannot request data older than 1209600s$/, { from: ago(360), to: ago(359) }],
  ["another zone", /^zones \[0123\] are not authorized$/, { zone: "0123" }],
  ["another form", /^query contains error/, {}, query.slice(0, -1)],
  ["a variable that is not declared", /"\$a" is not declared/, {}, query.replace("limit: $limit", "limit: $a")],
  ["a variable that is not given", /variable "\$rays" is no \[string!\]!/, { rays: undefined }],
  ["a variable that the query has not", /"a" is not declared/, { a: 1 }],
  ["a variable of an unknown type", /unknown type "Text!"/, {}, query.replace("string!,", "Text!,")],
])("%s is rejected", async (_, says, change, as) => {
  const { status, raw } = await ask(change, as);
  expect(status).toBe(says.source.includes("authorized") ? 403 : 400);
  const errors = [{ message: expect.stringMatching(says), path: ["viewer", "zones"] }];
  expect(raw).toMatchObject({ data: null, errors });
});

describe("the data plane records", () => {
  const rest = { source: "firewallCustom", ref: "rest", action: "block" } as const;
  const seen = async () => (await ask({ from: ago(20), to: ago(-1) })).raw;
  test("each event under the ray without the data centre, a rule's with its id, the newest first", async () => {
    record(zone, `${"b".repeat(16)}-TST`, [rest]);
    const bots = { source: "sbfm", ref: "sbfm_definitely_automated", action: "block" } as const;
    record(zone, `${"a".repeat(16)}-TST`, [rest, bots]);
    const { id } = zone.rulesets[0]!.rules[0]!;
    const firewallEventsAdaptive = [
      { source: "botManagement", ruleId: "sbfm_definitely_automated", description: "" },
      { source: "firewallCustom", ruleId: id, description: "nothing else" },
    ];
    expect(await seen()).toEqual({ data: { viewer: { zones: [{ firewallEventsAdaptive }] } }, errors: null });
  });
  test("nothing for a name that the zone has not, and no more than a page", () => {
    record(zone, "a-TST", [{ source: "dns", ref: "no proxied record", action: "block" }]);
    expect(securityLog(zone)).toEqual([]);
    for (let n = 0; n <= 10_000; n++) record(zone, `${n}-TST`, [rest]);
    expect([securityLog(zone).length, securityLog(zone)[0]!.rayName]).toEqual([10_000, "1"]);
  });
});
