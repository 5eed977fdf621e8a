/** The rules at Cloudflare: golden files, the requests that pass, and the requests that each condition rejects. */
import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, test } from "vitest";
import type { GitHostName, Settings } from "../../../infra/config/settings.ts";
import { canaryPath } from "../../../infra/contract.ts";
import { records } from "../../../infra/edge/dns.ts";
import { configRules, originRules } from "../../../infra/edge/origin.ts";
import { customRules } from "../../../infra/edge/waf.ts";
import { rulesOf } from "../../../infra/edge/zone/fits.ts";
import { merged, phaseNames, phases, type Rule } from "../../../infra/edge/zone/phase.ts";
import { networks } from "../../../infra/networks.ts";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { compile } from "../../fakes/cloudflare/expression.ts";
import { decide } from "../../fakes/cloudflare/plane.ts";
import type { EdgeRequest } from "../../fakes/cloudflare/request.ts";
import { emptyZone, type ZoneState, zoneFromDeclarations } from "../../fakes/cloudflare/zone.ts";
import { example, exampleHost, served, siteHostname } from "../../fixtures.ts";

const hookOf = (gitHost: GitHostName, name: string, sources: readonly string[]) => ({
  ...example.hooks[0]!,
  name,
  gitHost,
  published: gitHosts[gitHost].publishedPort !== undefined,
  sources,
});
const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org", originPort: 9443 };
/** Two hosts, every git host; the self-hosted ones send from two addresses. */
const everything: Settings = {
  ...example,
  hosts: [exampleHost, second],
  hooks: [
    hookOf("github", "site", networks.githubHooks.cidrs),
    hookOf("gitlab", "lab", networks.gitlabHooks.cidrs),
    hookOf("bitbucket", "bucket", networks.bitbucketHooks.cidrs),
    hookOf("gitea", "tea", ["198.51.100.7"]),
    hookOf("forgejo", "forge", ["198.51.100.7"]),
    hookOf("gogs", "gogs", ["198.51.100.8"]),
    hookOf("gitlab-self-managed", "labs", ["198.51.100.8"]),
    hookOf("bitbucket-data-center", "center", ["198.51.100.8"]),
    hookOf("standard-webhooks", "cms", ["198.51.100.8"]),
  ],
};

const declared = (settings: Settings, changed: Partial<Record<string, readonly Rule[]>> = {}): ZoneState => {
  const rules = rulesOf(settings);
  const rulesets = phaseNames.map((name) => ({
    type: "cloudflare:index/ruleset:Ruleset",
    name,
    inputs: { kind: "zone", name: "default", phase: phases[name].phase, rules: changed[name] ?? rules[name] },
  }));
  const dns = records(settings).map((inputs) => ({
    type: "cloudflare:index/dnsRecord:DnsRecord",
    name: `${inputs.name} ${inputs.type}`,
    inputs,
  }));
  return zoneFromDeclarations([...rulesets, ...dns], emptyZone("example.org", settings.edge.plan));
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

describe("the rendered rules", () => {
  const approved: [file: string, settings: Settings][] = [
    ["example", example],
    ["everything", everything],
    ["serving", { ...served, hosts: [exampleHost, { ...second, originPort: 8443, address: "203.0.113.11" }] }],
  ];
  test.each(approved)("match the golden files of %s", async (name, settings) => {
    for (const [phase, rules] of Object.entries({ ...rulesOf(settings), records: records(settings) }))
      await expect(`${JSON.stringify(rules, null, 2)}\n`).toMatchFileSnapshot(
        `../../golden/edge/${name}/${phase}.json`,
      );
  });
  test("have no golden file left over", () => {
    const files = readdirSync(new URL("../../golden/edge", import.meta.url), { recursive: true, withFileTypes: true });
    const kinds = [...phaseNames, "records"].map((name) => `${name}.json`);
    const names = files.filter((one) => one.isFile()).map((one) => `${basename(one.parentPath)}/${one.name}`);
    expect(names.sort()).toEqual(approved.flatMap(([name]) => kinds.map((kind) => `${name}/${kind}`)).sort());
  });
  test("use only operators and fields that every plan has", () => {
    for (const rule of Object.values(rulesOf(everything)).flat()) {
      const { fields, operators } = compile(rule.expression);
      expect([...operators].filter((one) => /matches|wildcard|contains/.test(one))).toEqual([]);
      expect([...fields].filter((one) => /body|bot_management|raw\./.test(one))).toEqual([]);
    }
  });
  test("have unique refs with pushgate's prefix", () => {
    const refs = Object.values(rulesOf(everything)).flatMap((rules) => rules.map(({ ref }) => ref));
    expect(new Set(refs).size).toBe(refs.length);
    for (const ref of refs) expect(ref).toMatch(/^pushgate_[a-z0-9_]+$/);
  });
  test("name every range of every git host in the delivery rule", () => {
    const { expression } = customRules(everything)[0]!;
    for (const cidr of everything.hooks.flatMap(({ sources }) => sources))
      expect(expression).toMatch(new RegExp(`[ {]${cidr.replace(/[.]/g, "\\.")}[ }]`));
  });
});

describe("a delivery of each git host", () => {
  const hex = "0123456789abcdef".repeat(4);
  const good: Record<GitHostName, [path: string, source: string, headers: EdgeRequest["headers"]]> = {
    github: ["site", "2a0a:a440::7", { "X-Hub-Signature-256": `sha256=${hex}` }],
    gitlab: ["lab", "34.74.90.70", { "X-Gitlab-Token": "a-token-that-is-the-secret-itself-xx" }],
    bitbucket: ["bucket", "104.192.143.241", { "X-Hub-Signature": `sha256=${hex}` }],
    gitea: ["tea", "198.51.100.7", { "X-Hub-Signature-256": `sha256=${hex}`, "X-Gitea-Signature": hex }],
    forgejo: ["forge", "198.51.100.7", { "X-Hub-Signature-256": `sha256=${hex}`, "X-Forgejo-Signature": hex }],
    gogs: ["gogs", "198.51.100.8", { "X-Gogs-Signature": hex }],
    "gitlab-self-managed": ["labs", "198.51.100.8", { "webhook-signature": "v1,YWJj" }],
    "bitbucket-data-center": ["center", "198.51.100.8", { "X-Hub-Signature": `sha256=${hex}` }],
    "standard-webhooks": ["cms", "198.51.100.8", { "webhook-signature": "v1a,YWJj v1,YWJj" }],
  };
  const zone = declared(everything);
  test.each(Object.entries(good))(
    "%s passes with a signature, from its own ranges only",
    (_, [path, source, headers]) => {
      const request = { target: `/webhook/${path}`, source, headers };
      for (const host of ["hooks.example.org", "hooks2.example.org"])
        expect(outcome(zone, { ...request, host })).toBe("forward");
      const unsigned = Object.fromEntries(Object.keys(headers).map((name) => [name, ""]));
      expect(outcome(zone, { ...request, headers: unsigned })).toBe("pushgate_rest");
      expect(outcome(zone, { ...request, headers: {} })).toBe("pushgate_rest");
      for (const [other, [, elsewhere]] of Object.entries(good))
        if (elsewhere !== source)
          expect([other, outcome(zone, { ...request, source: elsewhere })]).toContain("pushgate_rest");
    },
  );
  test("GitLab's signing token is enough, its other webhook-* headers are not", () => {
    const [path, source] = good.gitlab;
    const at = (headers: EdgeRequest["headers"]) => outcome(zone, { target: `/webhook/${path}`, source, headers });
    expect(at({ "webhook-signature": "v1,YWJj" })).toBe("forward");
    expect(at({ "webhook-id": "1", "webhook-timestamp": "1" })).toBe("pushgate_rest");
  });
  test("GitHub's SHA-1 header opens no hook", () => {
    expect(outcome(zone, { headers: { "x-hub-signature": `sha1=${"a".repeat(40)}` } })).toBe("pushgate_rest");
  });
  test("the headers of every signature are in lower case", () => {
    for (const { header } of Object.values(gitHosts).flatMap(({ signatures }) => signatures))
      expect(header).toBe(header.toLowerCase());
  });
});

describe("a request that the delivery rule rejects, and that passes without the condition:", () => {
  const signature = 'http.request.headers["x-hub-signature-256"]';
  const attacks: [attack: string, request: Partial<EdgeRequest>, word: string, instead: string][] = [
    ["without TLS", { ssl: false }, "(ssl and ", "("],
    ["by another method", { method: "PUT" }, 'http.request.method eq "POST" and ', ""],
    ["with a query", { target: "/webhook/site?x=1" }, 'http.request.uri.query eq "" and ', ""],
    ["to an undeclared path", { target: "/webhook/sites" }, 'http.request.uri.path in {"/webhook/site"} and ', ""],
    ["to a path below it", { target: "/webhook/site/x" }, 'http.request.uri.path in {"/webhook/site"} and ', ""],
    ["from elsewhere", { source: "192.0.2.1" }, "140.82.112.0/20", "140.82.112.0/20 192.0.2.0/24"],
    [
      "with another scheme's signature",
      { headers: { "x-hub-signature-256": `sha512=${"a".repeat(64)}` } },
      `any(starts_with(${signature}[*], "sha256=")) and `,
      "",
    ],
    [
      "with an empty signature",
      { headers: { "x-hub-signature-256": "sha256=" } },
      ` and len(${signature}[0]) eq 71`,
      "",
    ],
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
  test("one source set does not open the hook of another", () => {
    const request = { target: "/webhook/docs" };
    expect(outcome(declared(example), request)).toBe("pushgate_rest");
    expect(outcome(declared(example), { ...request, source: "198.51.100.3" })).toBe("forward");
  });
});

describe("everything else on the hostname", () => {
  test.each<[string, Partial<EdgeRequest>]>([
    ["the front page", { method: "GET", target: "/" }],
    ["GET on a hook", { method: "GET" }],
    ["a path below the canary", { method: "GET", target: `${canaryPath}/x` }],
    ["POST on the canary", { target: canaryPath }],
    ["the canary without TLS", { method: "GET", target: canaryPath, ssl: false }],
  ])("%s is blocked, and passes without the rule", (_, request) => {
    const { decidedBy, answer } = decide(declared(example), { ...delivery, ...request });
    expect(decidedBy).toEqual({ source: "firewallCustom", ref: "pushgate_rest", action: "block" });
    expect(answer).toMatchObject({ status: 403, body: expect.stringContaining("you have been blocked") });
    expect(outcome(declared(example, { custom: customRules(example).slice(0, 1) }), request)).toBe("forward");
  });
  test("the canary reaches the origin from anywhere", () => {
    const canary = { method: "GET", target: canaryPath, source: "192.0.2.1", headers: { "user-agent": "Mozilla/5.0" } };
    expect(outcome(declared(example), canary)).toBe("forward");
  });
});

describe("Cloudflare to origin", () => {
  test("each hostname gets its port and strict TLS", () => {
    const zone = declared(everything);
    for (const [host, port] of [
      ["hooks.example.org", 8443],
      ["hooks2.example.org", 9443],
    ] as const)
      expect(decide(zone, { ...delivery, host }).origin).toMatchObject({ port, ssl: "strict" });
    expect(decide(zone, { ...delivery, host: "www.example.org" }).origin).toMatchObject({ port: 443, ssl: "full" });
  });
  test("a site gets the port and TLS of hooks, and no custom rule names it", () => {
    const zone = declared(served);
    const visitor: EdgeRequest = { ...delivery, method: "GET", host: siteHostname, target: "/" };
    expect(decide(zone, visitor)).toMatchObject({ action: "forward", origin: { port: 8443, ssl: "strict" } });
    expect(JSON.stringify(customRules(served))).not.toContain(siteHostname);
    // If the rule named the site, Cloudflare would block its visitors.
    const [skip, rest] = customRules(served) as [Rule, Rule];
    const wider = { ...rest, expression: rest.expression.replace("{", `{"${siteHostname}" `) };
    expect(outcome(declared(served, { custom: [skip, wider] }), visitor)).toBe("pushgate_rest");
  });
  test("a site has one origin rule, even if the hosts' ports differ", () => {
    const rules = originRules({ ...served, hosts: [exampleHost, second] });
    expect(rules.filter(({ expression }) => expression.includes(siteHostname))).toHaveLength(1);
  });
  test("the rules are in the order of the ports, and the sites are with the lowest", () => {
    const ports = [9443, 10443, 8443].map((originPort, i) => ({
      ...{ ...exampleHost, name: `web${i}`, hostname: `hooks${i}.example.org`, originPort },
    }));
    expect(
      originRules({ ...served, hosts: ports }).map(({ ref, expression, description }) => [
        ref,
        expression,
        description,
      ]),
    ).toEqual([
      [
        "pushgate_origin_8443",
        '(http.host in {"hooks2.example.org" "www.example.org"})',
        "pushgate: hooks and sites come in on port 8443",
      ],
      [
        "pushgate_origin_9443",
        '(http.host in {"hooks0.example.org"})',
        "pushgate: hooks and sites come in on port 9443",
      ],
      [
        "pushgate_origin_10443",
        '(http.host in {"hooks1.example.org"})',
        "pushgate: hooks and sites come in on port 10443",
      ],
    ]);
    expect(originRules(example)[0]?.description).toBe("pushgate: hooks come in on port 8443");
  });
  test("hosts with one port share one origin rule", () => {
    expect(originRules({ ...example, hosts: [exampleHost, { ...second, originPort: 8443 }] })).toHaveLength(1);
    expect(originRules(everything).map(({ ref }) => ref)).toEqual(["pushgate_origin_8443", "pushgate_origin_9443"]);
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
});

test("an absent host has no name, no record and no rule; a lost host keeps its own", () => {
  const absent: Settings = { ...example, hosts: [{ ...exampleHost, state: "absent" }] };
  expect([customRules(absent), originRules(absent), configRules(absent), records(absent)]).toEqual([[], [], [], []]);
  const lost: Settings = { ...example, hosts: [{ ...exampleHost, state: "lost" }] };
  expect(rulesOf(lost)).toEqual(rulesOf(example));
  const one: Settings = { ...everything, hosts: [{ ...exampleHost, state: "absent" }, second] };
  expect(JSON.stringify([rulesOf(one), records(one)])).not.toContain("hooks.example.org");
});
