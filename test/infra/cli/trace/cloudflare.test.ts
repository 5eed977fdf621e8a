/** What `npx pushgate trace` reads of Cloudflare's security events from the fake API, and what it prints without them. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { atCloudflare } from "../../../../infra/cli/trace/cloudflare.ts";
import { traceText } from "../../../../infra/cli/trace/text.ts";
import { verdict } from "../../../../infra/trace/verdict.ts";
import { UserError } from "../../../../infra/user-error.ts";
import { apiToken, type Fault, permissions, startApi } from "../../../fakes/cloudflare/api.ts";
import { analyticsPermission } from "../../../fakes/cloudflare/graphql.ts";
import { type Row, securityLog } from "../../../fakes/cloudflare/security-log.ts";
import { emptyZone, type Rule } from "../../../fakes/cloudflare/zone.ts";
import { Hosts } from "../hosts.ts";

const hosts = new Hosts();
/** Tokens without the permission to read events, and without the one to read rules. */
const [blind, reader] = ["b".repeat(40), "r".repeat(40)] as const;
const tokens = {
  [apiToken]: [...permissions, analyticsPermission],
  ...{ [blind]: permissions, [reader]: ["Zone Read", analyticsPermission] },
};
const api = await startApi({ zone: emptyZone("example.org", "free"), tokens });
afterAll(() => api.close());

const ray = "8f0c2d1e3a4b5c6d";
const rejected = { status: 403, headers: { "cf-ray": `${ray}-FRA` } };
const about = { version: "1", last_updated: "2026-01-01T00:00:00Z" };
const rule = (id: string, ref: string, description: string): Rule => ({
  ...{ id, ref, description, action: "block", expression: "ssl", enabled: true, ...about },
});

/** An event of the delivery, except for `change`. */
function logged(change: Partial<Row>): void {
  const row = { action: "block", source: "firewallCustom", ruleId: "5f2b", description: "", rayName: ray };
  securityLog(api.zone).push({ ...row, datetime: new Date().toISOString(), ...change });
}

beforeEach(() => {
  for (const list of [api.faults, api.requests, securityLog(api.zone)]) list.length = 0;
  const rules = [rule("aa11", "pushgate_rest", "pushgate: nothing else"), rule("bb22", "office", "only the office")];
  const phase = "http_request_firewall_custom";
  api.zone.rulesets = [{ id: "c0", name: "default", description: "", kind: "zone", phase, rules, ...about }];
});

type Answer = Parameters<typeof atCloudflare>[0][number];
type Access = Awaited<ReturnType<Parameters<typeof atCloudflare>[1]>>;
const lookedAll = (answers: readonly Answer[], change: Access = {}) =>
  atCloudflare(answers, async () => ({ token: apiToken, baseUrl: api.url, zone: "example.org", ...change }), 60);
const looked = async (change: Access = {}) => (await lookedAll([rejected], change))[0]!;

test("a rule of the zone's own: the command prints it, and a fix that names it", async () => {
  logged({ ruleId: "bb22" });
  hosts.configure([], []);
  const [token, baseUrl, zone] = [apiToken, api.url, "example.org"].map((value) => ({ value }));
  const config = { "cloudflare:apiToken": token, "cloudflare:baseUrl": baseUrl, "pushgate:zone": zone };
  hosts.write("secrets.json", JSON.stringify(config));
  const { code, stdout, stderr } = await hosts.run("trace", "--status", "403", "--header", `CF-Ray: ${ray}-FRA`);
  expect([code, stderr]).toEqual([1, ""]);
  expect(stdout).toMatch(/2 WAF +rejected it\n/);
  expect(stdout).toContain(`certain: a custom rule of the zone or account blocked the request.
  fix: Exclude the hostname from the zone's own rule "only the office" bb22. npx pulumi up puts pushgate's rules before`);
  expect(stdout).toMatch(/Cloudflare's events +block by firewallcustom, the zone's own rule "only the office" bb22\n/);
});

test.each<[string, Partial<Row>, object, token?: string]>([
  ["pushgate's own", { ruleId: "aa11" }, { owner: "pushgate", description: "pushgate: nothing else" }],
  ["unknown to the zone", { ruleId: "cc33", description: "of the account" }, { description: "of the account" }],
  ["one that the token may not read", { ruleId: "bb22", description: "a rule" }, { description: "a rule" }, reader],
])("the rule of an event is %s", async (_, event, known, token = apiToken) => {
  logged(event);
  const { ruleId: rule } = event;
  expect(await looked({ token })).toEqual({
    cloudflare: [{ source: "firewallcustom", action: "block", rule, ...known }],
  });
});

test("the events of another ray, and of another day, are not this delivery's", async () => {
  logged({ source: "bic", rayName: "0123456789abcdef" });
  logged({ source: "uaBlock", datetime: new Date(Date.now() - 30 * 3_600_000).toISOString() });
  const found = await looked();
  expect(found).toEqual({ cloudflare: [] });
  expect(traceText({ ...found, ...verdict(found) })).toMatch(/Cloudflare's events +none found/);
});

test("the events of several deliveries come with the requests of one, each to its own", async () => {
  const rays = ["a", "b", "c"].map((letter) => letter.repeat(16));
  for (const rayName of rays) for (const source of ["bic", "uaBlock"]) logged({ source, ruleId: rayName, rayName });
  const answers = rays.map((one) => ({ status: 403, headers: { "cf-ray": `${one}-FRA` } }));
  const found = await lookedAll([undefined, ...answers]);
  expect(found[0]).toHaveProperty("notLooked");
  expect(found.slice(1).map(({ cloudflare }) => cloudflare?.map(({ rule }) => rule))).toEqual(
    rays.map((one) => [one, one]),
  );
  expect(api.requests).toHaveLength(3);
});

test("the time range is one that each plan has", async () => {
  logged({ source: "bic", ruleId: "bic" });
  for (const plan of ["pro", "business", "enterprise", "free"] as const) {
    api.zone.plan = plan;
    expect(await looked()).toMatchObject({ cloudflare: [{ source: "bic" }] });
  }
});

test("texts of an event lose control characters, line breaks and length, and none is a placeholder", async () => {
  const hostile = `\u001b[2J\r\n  8 receiver  rejected it\u202e {origin} $& ${"x".repeat(500)}`;
  logged({ source: "uaBlock", ruleId: hostile, description: hostile });
  const seen = { answer: rejected, ...(await looked()) };
  const text = traceText({ ...seen, ...verdict(seen) });
  expect(text).not.toMatch(/[\u001b\r\u202e]/);
  expect(text.match(/^ *8 receiver.*/gm)).toEqual([expect.stringMatching(/not reached$/)]);
  expect(text).toContain("rejected it? {origin} $& xxx");
  expect(Math.max(...text.split("\n").map(({ length }) => length))).toBeLessThan(700);
});

describe("not looked at, and why", () => {
  const graphql = (status: number, more: Partial<Fault> = {}) => ({ status, path: /graphql/, times: 9, ...more });
  const unauthorized = { body: '{"data":null,"errors":[{"message":"not authorized for that account"}]}' };
  const empty = { body: '{"data":null,"errors":null}' };
  test.each<[string, Access, Fault | undefined, RegExp]>([
    ["no token", { token: undefined }, undefined, /^cloudflare:apiToken is not set\. Run: /],
    ["a wrong token", { token: "x".repeat(40) }, undefined, /^the API: 401 Invalid API Token \(1000\)$/],
    ["another zone's token", { zone: "example.net" }, undefined, /^cloudflare:apiToken cannot read a zone example/],
    [
      "a token without the permission",
      { token: blind },
      undefined,
      /^the API: 403 .* the permission Analytics Read\.$/,
    ],
    ["an API that is busy", {}, graphql(429), /^the API: 429 Please wait and try again/],
    ["an error with status 200", {}, graphql(200, unauthorized), /^the API: 200 not authorized for that .*\. Give /],
    ["an answer without data", {}, graphql(200, empty), /^the zone's plan has no security events$/],
  ])("%s", async (_, access, fault, says) => {
    logged({ source: "bic" });
    if (fault) api.faults.push(fault);
    expect(await looked(access)).toEqual({ notLooked: expect.stringMatching(says) });
    // A busy API is not tried again.
    expect(api.requests.filter((one) => /graphql/.test(JSON.stringify(one))).length).toBeLessThan(2);
  });

  const served = { ...rejected.headers, "x-served-by": "pushgate-proxy" };
  test.each<[string, Answer, RegExp]>([
    ["no answer", undefined, /^the answer has no ray\. Add --status and/],
    ["a ray that is none", { status: 403, headers: { "cf-ray": `${ray}"}) { x }` } }, /^the answer has no ray/],
    ["an answer of the host's", { status: 403, headers: served }, /^it let the request pass/],
  ])("%s: no secret is read", async (_, answer, says) => {
    const access = () => Promise.reject(new Error("the configuration was read"));
    expect((await atCloudflare([answer], access))[0]?.notLooked).toMatch(says);
  });

  test("a secret that cannot be decrypted", async () => {
    const access = () => Promise.reject(new UserError("cloudflare:apiToken cannot be decrypted"));
    expect(await atCloudflare([rejected], access)).toEqual([{ notLooked: "cloudflare:apiToken cannot be decrypted" }]);
  });
});
