/**
 * What Cloudflare decides, where test/infra/edge/matrix.test.ts does not meet it: the order of rules, and what Security
 * Events show. The matrix has each product with and without pushgate's skip rule.
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
});
