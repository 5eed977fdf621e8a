/** The rules at Cloudflare: golden files, and the request that each condition rejects. matrix.test.ts has all others. */
import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, test } from "vitest";
import { published } from "../../../infra/config/derived.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { records } from "../../../infra/edge/dns.ts";
import { originRules } from "../../../infra/edge/origin.ts";
import { customRules } from "../../../infra/edge/waf.ts";
import { rulesOf } from "../../../infra/edge/zone/fits.ts";
import { merged, phaseNames, phases, type Rule } from "../../../infra/edge/zone/phase.ts";
import { gitHostNames } from "../../../service/git-hosts/index.ts";
import { decide } from "../../fakes/cloudflare/plane.ts";
import type { EdgeRequest } from "../../fakes/cloudflare/request.ts";
import { declaredZone, emptyZone, type ZoneState } from "../../fakes/cloudflare/zone.ts";
import { example, exampleHost, served, siteHostname } from "../../fixtures.ts";

const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org", originPort: 9443 };
/** Two hosts, every git host; the self-hosted ones send from one address. */
const everything: Settings = {
  ...example,
  hosts: [exampleHost, second],
  hooks: gitHostNames.map((gitHost) => ({
    ...{ ...example.hooks[0]!, name: gitHost, gitHost },
    sources: published[gitHost] ?? ["198.51.100.8"],
  })),
};

const declared = (settings: Settings, changed: Partial<Record<string, readonly Rule[]>> = {}): ZoneState => {
  const all = { ...rulesOf(settings), ...changed };
  const rules = Object.fromEntries(phaseNames.map((name) => [phases[name].phase, all[name]]));
  return declaredZone(emptyZone("example.org", settings.edge.plan), rules, records(settings));
};

const delivery: EdgeRequest = {
  source: "140.82.112.7",
  method: "POST",
  host: "hooks.example.org",
  target: "/webhook/site",
  headers: { "user-agent": "GitHub-Hookshot/abc", "x-hub-signature-256": `sha256=${"a".repeat(64)}` },
};
const outcome = (zone: ZoneState, change: Partial<EdgeRequest>): string => {
  const { decidedBy, action } = decide(zone, { ...delivery, ...change });
  return decidedBy?.ref ?? action;
};

const approved: [file: string, settings: Settings][] = [
  ["example", example],
  ["everything", everything],
  ["serving", { ...served, hosts: [exampleHost, { ...second, originPort: 8443, address: "203.0.113.11" }] }],
];
// The delivery rule lets no delivery through without `ruleset: current`, below the rule that blocks, or if not enabled.
test.each(approved)("the rendered rules match the golden files of %s", async (name, settings) => {
  for (const [phase, rules] of Object.entries({ ...rulesOf(settings), records: records(settings) }))
    await expect(`${JSON.stringify(rules, null, 2)}\n`).toMatchFileSnapshot(`../../golden/edge/${name}/${phase}.json`);
});
test("the rendered rules have no golden file left over", () => {
  const files = readdirSync(new URL("../../golden/edge", import.meta.url), { recursive: true, withFileTypes: true });
  const kinds = [...phaseNames, "records"].map((name) => `${name}.json`);
  const names = files.filter((one) => one.isFile()).map((one) => `${basename(one.parentPath)}/${one.name}`);
  expect(names.sort()).toEqual(approved.flatMap(([name]) => kinds.map((kind) => `${name}/${kind}`)).sort());
});

describe("a request that the delivery rule rejects, and that passes without the condition:", () => {
  const signature = 'http.request.headers["x-hub-signature-256"]';
  const begins = `any(starts_with(${signature}[*], "sha256="))`;
  const signed = (value: string) => ({ headers: { "x-hub-signature-256": value } });
  const attacks: [attack: string, request: Partial<EdgeRequest>, word: string, instead: string][] = [
    ["without TLS", { ssl: false }, "(ssl and ", "("],
    ["by another method", { method: "PUT" }, 'http.request.method eq "POST" and ', ""],
    ["with a query", { target: "/webhook/site?x=1" }, 'http.request.uri.query eq "" and ', ""],
    ["to an undeclared path", { target: "/webhook/sites" }, 'http.request.uri.path in {"/webhook/site"} and ', ""],
    ["from elsewhere", { source: "192.0.2.1" }, "140.82.112.0/20", "140.82.112.0/20 192.0.2.0/24"],
    ["with another scheme's signature", signed(`sha512=${"a".repeat(64)}`), `${begins} and `, ""],
    ["with an empty one", signed("sha256="), ` and len(${signature}[0]) eq 71`, ""],
  ];
  test.each(attacks)("%s", (_, request, word, instead) => {
    const [skip, rest] = customRules(example) as [Rule, Rule];
    expect(outcome(declared(example), request)).toBe("pushgate_rest");
    const expression = skip.expression.replaceAll(word, instead);
    expect(expression).not.toBe(skip.expression);
    expect(outcome(declared(example, { custom: [{ ...skip, expression }, rest] }), request)).toBe("forward");
  });
  test("another hostname of the zone keeps its own protection", () => {
    const www = { host: "www.example.org", headers: delivery.headers };
    const underAttack = (rules: readonly Rule[]) => {
      const zone = declared(example, { custom: rules });
      zone.settings.security_level = "under_attack";
      zone.dns_records.push({ ...zone.dns_records[0]!, id: "www", name: "www.example.org" });
      return outcome(zone, www);
    };
    const [skip, rest] = customRules(example) as [Rule, Rule];
    expect(underAttack([skip, rest])).toBe("under_attack");
    const everywhere = skip.expression.replace('http.host in {"hooks.example.org"} and ', "");
    expect(underAttack([{ ...skip, expression: everywhere }, rest])).toBe("forward");
  });
  test("a site's visitors meet no custom rule, and would be blocked by one that names the site", () => {
    const visitor = { method: "GET", host: siteHostname, target: "/" };
    expect(outcome(declared(served), visitor)).toBe("forward");
    const [skip, rest] = customRules(served) as [Rule, Rule];
    const wider = { ...rest, expression: rest.expression.replace("{", `{"${siteHostname}" `) };
    expect(outcome(declared(served, { custom: [skip, wider] }), visitor)).toBe("pushgate_rest");
  });
});

test("hosts with one port share a rule, in the order of the ports, and a site is with the lowest", () => {
  const hosts = [9443, 10443, 8443, 8443].map((originPort, i) => ({
    ...{ ...exampleHost, name: `web${i}`, hostname: `hooks${i}.example.org`, originPort },
  }));
  const rules = originRules({ ...served, hosts });
  expect(rules.map(({ ref, expression }) => [ref, expression])).toEqual([
    ["pushgate_origin_8443", '(http.host in {"hooks2.example.org" "hooks3.example.org" "www.example.org"})'],
    ["pushgate_origin_9443", '(http.host in {"hooks0.example.org"})'],
    ["pushgate_origin_10443", '(http.host in {"hooks1.example.org"})'],
  ]);
});
test("a zone-wide rule of the zone's own does not affect hooks, because of the place of pushgate's rules", () => {
  const flexible: Rule = { ref: "a", action: "set_config", expression: "true", enabled: true, description: "" };
  const foreign = {
    config: [{ ...flexible, actionParameters: { ssl: "flexible" } }],
    origin: [{ ...flexible, action: "route", actionParameters: { origin: { port: 8080 } } }],
    custom: [{ ...flexible, action: "managed_challenge" }],
  };
  const rules = rulesOf(example);
  const all = Object.fromEntries(phaseNames.map((name) => [name, merged(name, rules[name], foreign[name])]));
  const zone = declared(example, all);
  expect(decide(zone, delivery)).toMatchObject({ action: "forward", origin: { port: 8443, ssl: "strict" } });
  // In the reverse order the operator's rule wins.
  const turned = (name: "config" | "origin" | "custom") =>
    decide(declared(example, { ...all, [name]: all[name]!.toReversed() }), delivery);
  expect(turned("config").origin.ssl).toBe("flexible");
  expect(turned("origin").origin.port).toBe(8080);
  expect(turned("custom").action).not.toBe("forward");
});
