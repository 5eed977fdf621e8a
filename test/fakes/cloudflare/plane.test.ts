/**
 * What Cloudflare decides, where test/infra/edge/matrix.test.ts does not meet it: the order of rules, what Security Events
 * show, and answers with a content of their own. The matrix has each product with and without pushgate's skip rule.
 */
import { describe, expect, test } from "vitest";
import type { Plan } from "../../../infra/config/settings.ts";
import { decide } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";
import { emptyZone, type ZoneState, zoneFromDeclarations } from "./zone.ts";

const delivery: EdgeRequest = {
  ...{ source: "140.82.112.7", method: "POST", host: "hooks.example.org", target: "/webhook/site" },
  headers: { "user-agent": "GitHub-Hookshot/abc", "x-hub-signature-256": `sha256=${"a".repeat(64)}` },
};
const here = 'http.host eq "hooks.example.org"';
const skip = {
  ...{ ref: "skip", action: "skip", logging: { enabled: true } },
  expression: `(${here} and any(starts_with(http.request.headers["x-hub-signature-256"][*], "sha256=")))`,
  actionParameters: {
    ruleset: "current",
    phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
    products: ["bic", "securityLevel", "uaBlock", "zoneLockdown"],
  },
};
const rest = { ref: "rest", action: "block", expression: here };

const ruleset = (phase: string, ...rules: object[]) => ({
  ...{ type: "cloudflare:index/ruleset:Ruleset", name: phase },
  inputs: { zoneId: "z", kind: "zone", name: "default", phase, rules },
});
const record = {
  ...{ type: "cloudflare:index/dnsRecord:DnsRecord", name: "hooks" },
  inputs: { name: "hooks.example.org", type: "A", content: "203.0.113.10", proxied: true, ttl: 1 },
};
/** With these custom rules. */
const zone = (plan: Plan, rules: object[] = [skip, rest], change: Partial<ZoneState> = {}): ZoneState => ({
  ...zoneFromDeclarations([record, ruleset("http_request_firewall_custom", ...rules)], emptyZone("example.org", plan)),
  ...change,
});
const said = (state: ZoneState, change: Partial<EdgeRequest> = {}): string => {
  const { action, decidedBy, answer } = decide(state, { ...delivery, ...change });
  return decidedBy ? `${answer?.status} ${decidedBy.source} ${decidedBy.ref}` : action;
};

test("a rule may have its own response, and a rate rule answers with Retry-After", () => {
  const response = { statusCode: 418, content: "no", contentType: "text/plain" };
  const own = decide(zone("pro", [{ ...rest, actionParameters: { response } }]), delivery);
  expect(own.answer).toMatchObject({ status: 418, body: "no" });
  const ratelimit = { characteristics: [], period: 10, requestsPerPeriod: 5, mitigationTimeout: 10 };
  const rate = ruleset("http_ratelimit", { ref: "rate", action: "block", expression: "ssl", ratelimit });
  const state = zoneFromDeclarations([rate], zone("pro", []));
  const { answer } = decide(state, { ...delivery, counted: () => 6 });
  expect(answer).toMatchObject({ status: 429, headers: { "retry-after": "10" } });
  expect(said(state, { counted: () => 5 })).toBe("forward");
});

describe("order", () => {
  const { ruleset: _, ...lists } = skip.actionParameters;
  test.each<[string, object[], string]>([
    ["a skip below the block comes too late", [rest, skip], "403 firewallCustom rest"],
    [
      "without ruleset: current, the next rule runs",
      [{ ...skip, actionParameters: lists }, rest],
      "403 firewallCustom rest",
    ],
    ["a skip that is off skips nothing", [{ ...skip, enabled: false }, rest], "403 firewallCustom rest"],
  ])("%s", (_, rules, expected) => {
    expect(said(zone("pro", rules))).toBe(expected);
  });
  test("a logged rule goes on, a skip is an event only if it is logged", () => {
    const events = (...rules: object[]) => decide(zone("enterprise", rules), delivery).events.map(({ ref }) => ref);
    expect(events({ ...rest, ref: "log", action: "log" }, rest)).toEqual(["log", "rest"]);
    expect(events(skip)).toEqual(["skip"]);
    expect(events({ ...skip, logging: { enabled: false } })).toEqual([]);
  });
  test.each([
    ["ip", "140.82.112.7", "403 ip a", "error code: 1006"],
    ["ip_range", "140.82.112.0/24", "403 ipRange a", "error code: 1006"],
    ["ip", "140.82.112.8", "forward", undefined],
  ])("an IP Access rule for %s %s: %s", (target, value, expected, body) => {
    const access_rules = [{ id: "a", notes: "", mode: "block", configuration: { target, value } }];
    expect(said(zone("pro", [], { access_rules }))).toBe(expected);
    expect(decide(zone("pro", [], { access_rules }), delivery).answer?.body).toBe(body);
    const allow = { id: "b", notes: "", mode: "whitelist", configuration: { target: "ip", value: "140.82.112.7" } };
    // An Allow lets an unsigned request past every rule: why pushgate has none.
    const allowed = zone("pro", [rest], { access_rules: [...access_rules, allow] });
    expect(said(allowed, { headers: {} })).toBe("forward");
  });
});

test("port, TLS and integrity check come from their rules, for this hostname alone", () => {
  const port = { origin: { port: 8443 } };
  const config = { ssl: "strict", bic: false };
  const state = zoneFromDeclarations(
    [
      ruleset("http_request_origin", { ref: "p", action: "route", expression: here, actionParameters: port }),
      ruleset("http_config_settings", { ref: "s", action: "set_config", expression: here, actionParameters: config }),
    ],
    zone("free", []),
  );
  expect(decide(state, delivery).origin).toMatchObject({ port: 8443, ssl: "strict" });
  expect(said(state, { headers: {} })).toBe("forward");
  state.dns_records.push({ ...state.dns_records[0]!, name: "www.example.org" });
  const other = { host: "www.example.org" };
  expect(decide(state, { ...delivery, ...other }).origin).toMatchObject({ port: 443, ssl: "full" });
  expect(said(state, { ...other, headers: {} })).toBe("403 bic bic");
  state.dns_records[0]!.proxied = false;
  expect(said(state)).toBe("409 dns no proxied record");
});
