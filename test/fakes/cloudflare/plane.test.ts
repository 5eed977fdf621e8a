/** What Cloudflare decides: which product rejects a request, in which order, and what a skip rule does and does not skip. */
import { describe, expect, test } from "vitest";
import type { Plan } from "../../../infra/config/settings.ts";
import { decide } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";
import { emptyZone, type Rule, type ZoneState, zoneFromDeclarations } from "./zone.ts";

const delivery: EdgeRequest = {
  source: "140.82.112.7",
  method: "POST",
  host: "hooks.example.org",
  target: "/webhook/site",
  headers: { "user-agent": "GitHub-Hookshot/abc", "x-hub-signature-256": `sha256=${"a".repeat(64)}` },
};
const here = 'http.host eq "hooks.example.org"';
const skip = {
  ref: "skip",
  action: "skip",
  expression: `(${here} and any(starts_with(http.request.headers["x-hub-signature-256"][*], "sha256=")))`,
  logging: { enabled: true },
  actionParameters: {
    ruleset: "current",
    phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
    products: ["bic", "securityLevel", "uaBlock", "zoneLockdown"],
  },
};
const rest = { ref: "rest", action: "block", expression: here };

const ruleset = (phase: string, ...rules: object[]) => ({
  type: "cloudflare:index/ruleset:Ruleset",
  name: phase,
  inputs: { zoneId: "z", kind: "zone", name: "default", phase, rules },
});
const record = {
  type: "cloudflare:index/dnsRecord:DnsRecord",
  name: "hooks",
  inputs: { name: "hooks.example.org", type: "A", content: "203.0.113.10", proxied: true, ttl: 1 },
};
const custom = (...rules: object[]) => ruleset("http_request_firewall_custom", ...rules);

function zone(plan: Plan, change: Partial<ZoneState> = {}, ...rules: object[]): ZoneState {
  const declared = [record, custom(...(rules.length > 0 ? rules : [skip, rest]))];
  const state = zoneFromDeclarations(declared, emptyZone("example.org", plan));
  return { ...state, ...change };
}
const said = (state: ZoneState, change: Partial<EdgeRequest> = {}): string => {
  const { action, decidedBy, answer } = decide(state, { ...delivery, ...change });
  return decidedBy ? `${answer?.status} ${decidedBy.source} ${decidedBy.ref}` : action;
};

describe("the incident: a delivery that is right in all things, and bot management on", () => {
  const on: Record<Plan, object> = {
    free: { fight_mode: true },
    pro: { sbfm_definitely_automated: "managed_challenge" },
    business: { sbfm_definitely_automated: "block" },
    enterprise: { sbfm_definitely_automated: "managed_challenge" },
    "enterprise-bots": {},
  };
  const scoreRule = { ref: "score", action: "managed_challenge", expression: "cf.bot_management.score lt 30" };
  test.each<[Plan, string, string]>([
    ["free", "403 botFight bot_fight_mode", "403 botFight bot_fight_mode"],
    ["pro", "forward", "403 sbfm sbfm_definitely_automated"],
    ["business", "forward", "403 sbfm sbfm_definitely_automated"],
    ["enterprise", "forward", "403 sbfm sbfm_definitely_automated"],
    ["enterprise-bots", "forward", "403 firewallCustom score"],
  ])("%s", (plan, withRule, without) => {
    const bots = { bot_management: on[plan] as Record<string, unknown> };
    const foreign = plan === "enterprise-bots" ? [scoreRule] : [];
    expect(said(zone(plan, bots, skip, rest, ...foreign))).toBe(withRule);
    expect(said(zone(plan, bots, ...foreign, { ...skip, enabled: false }))).toBe(without);
  });
  test("a challenge differs from a block by its header", () => {
    const challenged = decide(zone("free", { bot_management: { fight_mode: true } }), delivery);
    expect(challenged.answer).toMatchObject({ status: 403, headers: { "cf-mitigated": "challenge" } });
    expect(challenged.answer?.body).toContain("Just a moment...");
    const stranger = decide(zone("free"), { ...delivery, headers: {} });
    expect(stranger.answer?.headers).not.toHaveProperty("cf-mitigated");
    expect(stranger.answer?.body).toContain("Sorry, you have been blocked");
  });
  test("a browser is not challenged", () => {
    const state = zone("pro", { bot_management: on.pro as Record<string, unknown> }, { ...rest, enabled: false });
    expect(said(state, { headers: { "user-agent": "Mozilla/5.0" } })).toBe("forward");
  });
});

describe("each product, with the skip rule and without that one word in it", () => {
  const rate = {
    ref: "rate",
    action: "block",
    expression: 'starts_with(http.request.uri.path, "/webhook/")',
    ratelimit: { characteristics: ["cf.colo.id", "ip.src"], period: 10, requestsPerPeriod: 5, mitigationTimeout: 10 },
  };
  const settings = { ...emptyZone("example.org", "pro").settings };
  const table: [word: string, change: Partial<ZoneState>, request: Partial<EdgeRequest>, without: string][] = [
    ["http_ratelimit", {}, { counted: () => 6 }, "429 rateLimit rate"],
    ["http_request_firewall_managed", {}, { attackLike: true }, "403 firewallManaged managed_free"],
    [
      "http_request_sbfm",
      { bot_management: { sbfm_definitely_automated: "block" } },
      {},
      "403 sbfm sbfm_definitely_automated",
    ],
    ["bic", {}, { headers: { ...delivery.headers, "user-agent": "" } }, "403 bic bic"],
    [
      "securityLevel",
      { settings: { ...settings, security_level: "under_attack" } },
      {},
      "403 securityLevel under_attack",
    ],
    ["uaBlock", { user_agent_blocks: ["GitHub-Hookshot/abc"] }, {}, "403 uaBlock ua"],
    [
      "zoneLockdown",
      { lockdowns: [{ prefix: "hooks.example.org/", addresses: ["198.51.100.0/24"] }] },
      {},
      "403 zoneLockdown lockdown",
    ],
  ];
  test.each(table)("%s", (word, change, request, without) => {
    const less = structuredClone(skip);
    const { actionParameters: lists } = less;
    lists.phases = lists.phases.filter((phase) => phase !== word);
    lists.products = lists.products.filter((product) => product !== word);
    const limited = zoneFromDeclarations([ruleset("http_ratelimit", rate)], zone("pro", change));
    expect(said(limited, request)).toBe("forward");
    const opened = zoneFromDeclarations([ruleset("http_ratelimit", rate), custom(less, rest)], zone("pro", change));
    expect(said(opened, request)).toBe(without);
  });
  test("429 says when to come back", () => {
    const state = zoneFromDeclarations([ruleset("http_ratelimit", rate)], zone("pro", {}, { ...rest, enabled: false }));
    expect(decide(state, { ...delivery, counted: () => 6 }).answer).toMatchObject({
      status: 429,
      headers: { "retry-after": "10" },
      body: "error code: 1015",
    });
    expect(said(state, { counted: () => 5 })).toBe("forward");
  });
});

describe("order", () => {
  test("a skip below the block comes too late", () => {
    expect(said(zone("pro", {}, rest, skip))).toBe("403 firewallCustom rest");
  });
  test("without ruleset: current, the next rule still runs", () => {
    const { ruleset: _, ...lists } = skip.actionParameters;
    expect(said(zone("pro", {}, { ...skip, actionParameters: lists }, rest))).toBe("403 firewallCustom rest");
  });
  test("a logged block goes on, the first real one decides", () => {
    const verdict = decide(zone("enterprise", {}, { ...rest, ref: "log", action: "log" }, rest), delivery);
    expect(verdict.events.map(({ ref }) => ref)).toEqual(["log", "rest"]);
  });
  test("a skip is in the events, and a skip without logging is not", () => {
    expect(decide(zone("pro"), delivery).events).toEqual([{ source: "firewallCustom", ref: "skip", action: "skip" }]);
    expect(decide(zone("pro", {}, { ...skip, logging: { enabled: false } }), delivery).events).toEqual([]);
  });
  test("an IP access Allow lets an unsigned request past every rule: why pushgate has none", () => {
    const rules = [
      { id: "a", notes: "", mode: "block", configuration: { target: "ip_range", value: "140.82.112.0/24" } },
      { id: "b", notes: "", mode: "whitelist", configuration: { target: "ip", value: "140.82.112.7" } },
    ];
    expect(said(zone("pro", { access_rules: rules }), { headers: {} })).toBe("forward");
    expect(said(zone("pro", { access_rules: rules.slice(0, 1) }))).toBe("403 ipRange a");
  });
  test("an IP Access rule by its target has its own source and page", () => {
    const of = (target: string, value: string) => ({
      id: "a",
      notes: "",
      mode: "block",
      configuration: { target, value },
    });
    const request = { country: "DE", asn: "AS36459" };
    const page = (...rule: [string, string]) => {
      const { decidedBy, answer } = decide(zone("pro", { access_rules: [of(...rule)] }), { ...delivery, ...request });
      return `${decidedBy?.source} ${answer?.body}`;
    };
    expect(page("ip", "140.82.112.7")).toBe("ip error code: 1006");
    expect(page("country", "DE")).toBe("country error code: 1009");
    expect(page("asn", "AS36459")).toBe("asn error code: 1005");
    expect(page("asn", "AS1")).toBe("undefined undefined");
  });
  test("a rule's own response", () => {
    const response = { statusCode: 418, content: "no", contentType: "text/plain" };
    const verdict = decide(zone("pro", {}, { ...rest, actionParameters: { response } }), delivery);
    expect(verdict.answer).toMatchObject({ status: 418, body: "no" });
  });
});

describe("the way to the origin", () => {
  const origin = ruleset("http_request_origin", {
    ref: "port",
    action: "route",
    expression: here,
    actionParameters: { origin: { port: 8443 } },
  });
  const config = ruleset("http_config_settings", {
    ref: "ssl",
    action: "set_config",
    expression: here,
    actionParameters: { ssl: "strict", bic: false, securityLevel: "essentially_off" },
  });
  const state = zoneFromDeclarations([origin, config], zone("free", {}, { ...rest, enabled: false }));
  test("port and TLS come from their rules, for this hostname alone", () => {
    expect(decide(state, delivery).origin).toMatchObject({ port: 8443, ssl: "strict" });
    state.dns_records.push({ ...state.dns_records[0]!, name: "www.example.org" });
    expect(decide(state, { ...delivery, host: "www.example.org" }).origin).toMatchObject({ port: 443, ssl: "full" });
  });
  test("the configuration rule switches off the integrity check and the security level", () => {
    expect(said(state, { headers: {}, threat: true })).toBe("forward");
    expect(said(zone("free", {}, { ...rest, enabled: false }), { headers: {} })).toBe("403 bic bic");
  });
  test("without a proxied record Cloudflare does not know the name", () => {
    const gray = zone("free");
    gray.dns_records[0]!.proxied = false;
    expect(said(gray)).toBe("409 dns no proxied record");
  });
});

test("declarations become the API's shapes", () => {
  const state = zoneFromDeclarations(
    [
      custom(skip),
      { type: "cloudflare:index/botManagement:BotManagement", name: "bots", inputs: { fightMode: false } },
      { type: "cloudflare:index/zoneSetting:ZoneSetting", name: "s", inputs: { settingId: "ssl", value: "strict" } },
      { type: "command:local:Command", name: "firewall", inputs: {} },
    ],
    emptyZone("example.org", "free"),
  );
  const rule: Rule | undefined = state.rulesets[0]?.rules[0];
  expect(rule).toMatchObject({ ref: "skip", enabled: true, action_parameters: skip.actionParameters });
  expect(state.bot_management).toMatchObject({ fight_mode: false });
  expect(state.settings.ssl).toBe("strict");
});
