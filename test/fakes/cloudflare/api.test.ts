/** The fake API: the shapes that the provider reads, and every rejection that a user meets at the real API. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Plan } from "../../../infra/config/settings.ts";
import { type Api, apiToken, permissions, startApi } from "./api.ts";
import { type Authority, createAuthority } from "./authority.ts";
import { clientOf } from "./client.ts";
import { type DnsRecord, emptyZone, type Ruleset } from "./zone.ts";

const authority: Authority = await createAuthority("test CA");
let api: Api;
const { ask, result, refused } = clientOf(() => api);

async function start(plan: Plan = "free", tokens?: Record<string, readonly string[]>): Promise<void> {
  await api?.close();
  api = await startApi({ zone: emptyZone("example.org", plan), authority, ...(tokens ? { tokens } : {}) });
}
beforeEach(() => start());
afterEach(() => api.close());
afterAll(() => authority.close());
const rule = (ref: string, more: object = {}) => ({
  ref,
  action: "block",
  expression: 'http.host eq "a.example.org"',
  ...more,
});
const custom = (...rules: object[]) => ({
  name: "default",
  kind: "zone",
  phase: "http_request_firewall_custom",
  rules,
});

describe("tokens", () => {
  test("the API rejects a request without a token and one with a wrong token", async () => {
    expect(await ask("GET", "Z", undefined, null)).toMatchObject({ status: 400, errors: [{ code: 9106 }] });
    expect(await ask("GET", "Z", undefined, "x".repeat(40))).toMatchObject({ status: 401, errors: [{ code: 1000 }] });
    expect(await ask("GET", "/ips", undefined, null)).toMatchObject({ status: 200 });
  });
  test.each([
    ["Zone Read", "GET", "Z"],
    ["Zone Settings Write", "GET", "Z/settings/ssl"],
    ["DNS Write", "POST", "Z/dns_records", { name: "a", type: "A", content: "203.0.113.1" }],
    ["Zone WAF Write", "POST", "Z/rulesets", custom(rule("a"))],
    ["Config Rules Write", "PUT", "Z/rulesets/phases/http_config_settings/entrypoint", { rules: [] }],
    ["Origin Rules Write", "PUT", "Z/rulesets/phases/http_request_origin/entrypoint", { rules: [] }],
    ["Bot Management Write", "PUT", "Z/bot_management", { fight_mode: false }],
    ["SSL and Certificates Write", "GET", "Z/origin_tls_client_auth/settings"],
  ])("without %s, no %s %s", async (permission, method, path, body?: unknown) => {
    const less = permissions.filter((held) => held !== permission);
    await start("free", {
      [apiToken]: less,
      ["r".repeat(40)]: permissions.map((held) => held.replace("Write", "Read")),
    });
    expect(await ask(method, path, body)).toMatchObject({ status: 403, errors: [{ code: 10000 }] });
    if (method !== "GET") expect(await ask(method, path, body, "r".repeat(40))).toMatchObject({ status: 403 });
    await start();
    expect((await ask(method, path, body)).status).toBe(200);
  });
});

describe("rulesets", () => {
  test("created, read, listed without rules, replaced whole, deleted", async () => {
    const made = await result<Ruleset>("POST", "Z/rulesets", custom(rule("a"), rule("b")));
    expect(made).toMatchObject({
      name: "default",
      kind: "zone",
      version: "1",
      rules: [{ ref: "a", enabled: true }, { ref: "b" }],
    });
    expect(made.rules[0]!.id).toMatch(/^[0-9a-f]{32}$/);
    expect((await ask("GET", `Z/rulesets/${made.id}`)).result).toEqual(made);
    expect((await ask("GET", "Z/rulesets/phases/http_request_firewall_custom/entrypoint")).result).toEqual(made);
    const [entry] = await result<Ruleset[]>("GET", "Z/rulesets");
    expect(entry).toMatchObject({ id: made.id, phase: "http_request_firewall_custom" });
    expect(entry).not.toHaveProperty("rules");

    const changed = { rules: [rule("c"), rule("b", { enabled: false }), rule("a")] };
    const { rules, version } = await result<Ruleset>("PUT", `Z/rulesets/${made.id}`, changed);
    expect(version).toBe("2");
    expect(rules.map(({ ref }) => ref)).toEqual(["c", "b", "a"]);
    // By ref, a moved rule stays itself and a changed one gets a version.
    expect(rules[2]).toEqual(made.rules[0]);
    expect(rules[1]).toMatchObject({ id: made.rules[1]!.id, version: "2", enabled: false });

    expect((await ask("DELETE", `Z/rulesets/${made.id}`)).status).toBe(204);
    expect((await ask("GET", `Z/rulesets/${made.id}`)).status).toBe(404);
  });
  test("a rule without a ref is known by its id", async () => {
    const { ref: _, ...bare } = rule("x");
    const { id, rules } = await result<Ruleset>("POST", "Z/rulesets", custom(bare));
    expect(rules[0]!.ref).toBe(rules[0]!.id);
    const again = await result<Ruleset>("PUT", `Z/rulesets/${id}`, { rules: [{ ...bare, id: rules[0]!.id }] });
    expect(again.rules).toEqual(rules);
  });
  test("null is absent, as clients write it", async () => {
    const nulls = { action_parameters: null, logging: null, ratelimit: null, description: null };
    const { rules } = await result<Ruleset>("POST", "Z/rulesets", { ...custom(rule("a", nulls)), description: null });
    expect(Object.keys(rules[0]!).sort()).toEqual([
      "action",
      "enabled",
      "expression",
      "id",
      "last_updated",
      "ref",
      "version",
    ]);
  });
  test("a second ruleset in a phase is refused, an empty first one too", async () => {
    await ask("POST", "Z/rulesets", custom());
    const { status, errors } = await ask("POST", "Z/rulesets", custom(rule("a")));
    expect(status).toBe(400);
    expect(errors[0]).toEqual({
      code: 20217,
      message:
        "'zone' is not a valid value for kind because exceeded maximum number of zone rulesets for phase http_request_firewall_custom",
      source: { pointer: "/kind" },
    });
  });
  test("a dry run says what would be refused, and writes nothing", async () => {
    expect(await ask("POST", "Z/rulesets?dry_run=true", custom(rule("a")))).toMatchObject({
      status: 200,
      result: null,
    });
    expect(await refused("POST", "Z/rulesets?dry_run=true", custom(rule("a", { expression: "nonsense" })))).toMatch(
      /^400 20127 'nonsense' is not a valid value for expression because could not parse filter expression: .*\(1:1\)/,
    );
    expect(api.zone.rulesets).toEqual([]);
    await ask("POST", "Z/rulesets", custom(rule("a")));
    const { id } = api.zone.rulesets[0]!;
    await ask("PUT", `Z/rulesets/${id}?dry_run=true`, { rules: [] });
    await ask("DELETE", `Z/rulesets/${id}?dry_run=true`);
    expect(api.zone.rulesets[0]?.rules).toHaveLength(1);
  });
  test.each<[Plan, object, RegExp]>([
    [
      "free",
      custom(...Array.from({ length: 6 }, (_, n) => rule(`r${n}`))),
      /50001 exceeded the maximum number of rules in the phase http_request_firewall_custom: 6 out of 5/,
    ],
    [
      "free",
      custom(rule("a", { expression: 'http.host matches "x"' })),
      /operator Matches is not allowed, a Business plan/,
    ],
    [
      "enterprise",
      custom(rule("a", { expression: "cf.bot_management.score lt 30" })),
      /field cf.bot_management.score is not allowed, a Bot Management plan/,
    ],
    ["business", custom(rule("a", { action: "log" })), /Enterprise plan is required/],
    ["free", custom(rule("a", { action_parameters: { response: { status_code: 418 } } })), /custom response/],
    ["free", custom(rule("a"), rule("a")), /not unique/],
    ["free", custom(rule("a", { expresion: "x" })), /unknown field "expresion"/],
    ["free", custom(rule("a", { expression: "" })), /20125 .* cannot be blank/],
    ["free", custom(rule("a", { action: "skip" })), /nothing to skip/],
    [
      "free",
      custom(rule("a", { action: "skip", action_parameters: { products: ["BIC"] } })),
      /'BIC' is not a valid value for products/,
    ],
    [
      "free",
      custom(rule("a", { action: "skip", action_parameters: { phases: ["http_request_origin"] } })),
      /is not a valid value for phases/,
    ],
    ["free", custom(rule("a", { action: "set_config" })), /is not a valid value for action/],
  ])("%s: %#", async (plan, body, message) => {
    await start(plan);
    expect(await refused("POST", "Z/rulesets", body)).toMatch(message);
    expect(api.zone.rulesets).toEqual([]);
  });
  const rate = (limit: object, expression = 'http.request.uri.path eq "/"') => ({
    rules: [
      rule("r", {
        expression,
        ratelimit: {
          characteristics: ["cf.colo.id", "ip.src"],
          period: 10,
          requests_per_period: 5,
          mitigation_timeout: 10,
          ...limit,
        },
      }),
    ],
  });
  test.each<[Plan, object, RegExp]>([
    ["free", rate({ characteristics: ["ip.src"] }), /20155 cf.colo.id is required/],
    ["free", rate({ mitigation_timeout: 60 }), /mitigation timeout different from 10/],
    ["free", rate({ period: 60 }), /not entitled to use a period of 60/],
    ["free", rate({}, 'http.host eq "x"'), /field http.host is not allowed, an higher Advanced Rate Limiting plan/],
    ["pro", rate({ period: 11 }), /not a valid value for period/],
    ["free", rate({}), /^200/],
    ["pro", rate({ period: 60, mitigation_timeout: 3600 }, 'http.host eq "x"'), /^200/],
  ])("rate rules, %s: %#", async (plan, body, message) => {
    await start(plan);
    expect(await refused("PUT", "Z/rulesets/phases/http_ratelimit/entrypoint", body)).toMatch(message);
  });
  test.each([
    ["http_request_origin", { action: "route", action_parameters: { origin: { port: 8443 } } }, /^200/],
    [
      "http_request_origin",
      { action: "route", action_parameters: { origin: { port: 0 } } },
      /not a valid value for port/,
    ],
    ["http_config_settings", { action: "set_config", action_parameters: { ssl: "strict", bic: false } }, /^200/],
    ["http_config_settings", { action: "set_config", action_parameters: { ssl: "very" } }, /not a valid value for ssl/],
  ])("%s: %#", async (phase, more, message) => {
    expect(await refused("PUT", `Z/rulesets/phases/${phase}/entrypoint`, { rules: [rule("r", more)] })).toMatch(
      message,
    );
  });
});

test("DNS: relative names become whole, pages are pages, and what cannot be is refused", async () => {
  const record = { name: "hooks", type: "A", content: "203.0.113.10", proxied: true, ttl: 300 };
  const made = await result<DnsRecord>("POST", "Z/dns_records", record);
  expect(made).toMatchObject({ name: "hooks.example.org", ttl: 1, proxied: true, proxiable: true });
  expect(await refused("POST", "Z/dns_records", record)).toMatch(/400 81058/);
  expect(await refused("POST", "Z/dns_records", { ...record, type: "CNAME", content: "x.example.org" })).toMatch(
    /81053/,
  );
  expect(await refused("POST", "Z/dns_records", { ...record, content: "::1" })).toMatch(/9005/);
  for (let n = 0; n < 4; n++) await ask("POST", "Z/dns_records", { ...record, name: `n${n}` });
  const page = await ask("GET", "Z/dns_records?page=2&per_page=2");
  expect(page).toMatchObject({ result_info: { page: 2, count: 2, total_count: 5, total_pages: 3 } });
  expect((await ask("GET", "Z/dns_records?name=hooks.example.org&type=A")).result).toEqual([made]);
  expect((await ask("PATCH", `Z/dns_records/${made.id}`, { proxied: false })).result).toMatchObject({ proxied: false });
  expect((await ask("DELETE", `Z/dns_records/${made.id}`)).result).toEqual({ id: made.id });
  expect(await refused("GET", `Z/dns_records/${made.id}`)).toMatch(/^404 81044/);
});

test.each<[Plan, object, number]>([
  ["free", { fight_mode: true }, 200],
  ["free", { sbfm_definitely_automated: "allow" }, 400],
  ["pro", { sbfm_definitely_automated: "managed_challenge" }, 200],
  ["pro", { sbfm_likely_automated: "allow" }, 400],
  ["pro", { fight_mode: false }, 400],
  ["business", { sbfm_likely_automated: "allow" }, 200],
  ["business", { sbfm_likely_automated: "perhaps" }, 400],
  ["enterprise-bots", { sbfm_definitely_automated: "allow" }, 400],
])("bot management on %s: %j is %i", async (plan, body, status) => {
  await start(plan);
  expect((await ask("PUT", "Z/bot_management", body)).status).toBe(status);
  expect((await ask("GET", "Z/bot_management")).result).toMatchObject(status === 200 ? body : {});
});

test("settings, the zone, the ranges, access rules", async () => {
  expect((await ask("PATCH", "Z/settings/ssl", { value: "strict" })).result).toMatchObject({
    id: "ssl",
    value: "strict",
  });
  expect((await ask("GET", "Z/settings/ssl")).result).toMatchObject({ value: "strict", editable: true });
  expect(await refused("PATCH", "Z/settings/ssl", { value: "very" })).toMatch(/^400/);
  expect(await refused("GET", "Z/settings/nothing")).toMatch(/^404/);
  expect((await ask("GET", "/zones?name=example.org")).result).toMatchObject([{ plan: { legacy_id: "free" } }]);
  expect((await ask("GET", "/zones?name=example.net")).result).toEqual([]);
  expect((await ask("GET", "/ips")).result).toMatchObject({ ipv4_cidrs: expect.arrayContaining(["104.16.0.0/13"]) });
  expect(await refused("GET", "/zones/0123456789abcdef0123456789abcdef")).toMatch(/^404 7003/);
  expect(await refused("GET", "/nowhere")).toMatch(/^404 7000/);
  expect(await refused("POST", "Z/dns_records", "{")).toMatch(/^400/);
});

test("a fault is answered as often as the test says, and every request is recorded", async () => {
  api.faults.push({ path: /dns_records/, times: 1, status: 429, headers: { "retry-after": "1" } });
  api.faults.push({ method: "GET", times: 1, status: 200, body: "<html>" });
  const limited = await ask("GET", "Z/dns_records");
  expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "1"]);
  await expect(ask("GET", "Z/dns_records")).rejects.toThrow(SyntaxError);
  expect((await ask("GET", "Z/dns_records")).result).toEqual([]);
  expect(api.requests.map(({ status }) => status)).toEqual([429, 200, 200]);
});
