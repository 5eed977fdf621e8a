/** The dry run of a preview with the fake API, without an engine: it checks token and rules, and writes nothing. */
import * as pulumi from "@pulumi/pulumi";
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { Settings } from "../../../../infra/config/settings.ts";
import { driftIn } from "../../../../infra/contract.ts";
import { cloudflareApi } from "../../../../infra/edge/api.ts";
import { tryOut } from "../../../../infra/edge/zone/dry-run.ts";
import { rulesOf } from "../../../../infra/edge/zone/fits.ts";
import { CloudflareError, type LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import { permissions as all, apiToken, startApi } from "../../../fakes/cloudflare/api.ts";
import { clientOf } from "../../../fakes/cloudflare/client.ts";
import { emptyZone, type Rule, type Ruleset } from "../../../fakes/cloudflare/zone.ts";
import { example, exampleHost, serving, siteHostname } from "../../../fixtures.ts";

const settings: Settings = { ...example, edge: { plan: "free", botFightMode: "off", generation: 1 } };
const absent: Settings = { ...settings, hosts: [{ ...exampleHost, state: "absent" }] };
const tokens: Record<string, readonly string[]> = {};
const api = await startApi({ zone: emptyZone("example.org", "free"), tokens });
const client = clientOf(() => api);
const none = { name: "default", description: "", rules: [] };
const phases = { custom: none, origin: none, config: none };
const zone: LiveZone = { id: api.zone.id, name: "example.org", plan: "free", phases };
afterAll(() => api.close());
beforeEach(() => {
  tokens[apiToken] = all;
  api.requests.length = 0;
  api.zone.rulesets = [];
  api.zone.dns_records = [];
});

const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue();
const plain = (token = apiToken) => cloudflareApi({ baseUrl: api.url, token });
const faults = (declared = settings, live = zone): Promise<string[]> =>
  tryOut(plain(), declared, live).then(
    () => [],
    ({ message }: CloudflareError) => message.split("\n  ").slice(1),
  );
const fails = (path: RegExp) => api.faults.push({ path, times: 1, status: 400 });

test.each(["DNS", "SSL and Certificates", "Zone WAF", "Config Rules", "Origin Rules"])(
  "without %s the preview names that permission, and nothing else",
  async (kind) => {
    tokens[apiToken] = all.filter((one) => one !== `${kind} Write`);
    const found = await faults();
    expect(found.length).toBeGreaterThan(0);
    const says = new RegExp(`: 403 .*\\. .* has the permission ${kind} Edit\\.$`);
    for (const fault of found) expect(fault).toMatch(says);
    tokens[apiToken] = all;
    expect(await faults()).toEqual([]);
  },
);

test.each([
  ["DNS records", /dns_records$/, "DNS"],
  ["origin certificates", /\/client\/v4\/certificates$/, "SSL and Certificates"],
  ["client certificates", /origin_tls_client_auth\/hostnames\/certificates$/, "SSL and Certificates"],
])("the preview names %s that cannot be read, with what to do", async (what, path, permission) => {
  fails(path);
  expect(await faults()).toEqual([
    `the ${what} of example.org cannot be read: 400 Please wait and try again (10013). Check that ` +
      `cloudflare:apiToken is valid, belongs to this zone and has the permission ${permission} Edit.`,
  ]);
});

test("the preview quotes another reason for a rejection, and tries the other phases too", async () => {
  const found = await faults({ ...settings, hosts: [{ ...exampleHost, hostname: 'hooks" or ".example.org' }] });
  expect(found).toHaveLength(3);
  for (const fault of found)
    expect(fault).toMatch(/rules that `up` would write to example\.org are rejected by Cloudflare: 400 .*expression/);
});

test("a rule more than Cloudflare's quota stops a preview, but not the last one that fits, and no removal", async () => {
  /** The faults in a zone with `count` custom rules of its own. */
  const faultsWith = async (count: number, declared = settings): Promise<string[]> => {
    const own = Array.from({ length: count }, (_, n) => ({ ref: `own${n}`, action: "block", expression: "ssl" }));
    api.zone.rulesets = [];
    const set = { name: "default", kind: "zone", phase: "http_request_firewall_custom", rules: own };
    const { id } = await client.result<Ruleset>("POST", "Z/rulesets", set);
    const before = structuredClone(api.zone);
    const custom = { ...zone.phases.custom, id, rules: own as never };
    const found = await faults(declared, { ...zone, phases: { ...zone.phases, custom } });
    expect(api.zone).toStrictEqual(before);
    return found;
  };
  expect(await faultsWith(4)).toEqual([
    "the custom rules that `up` would write to example.org are rejected by Cloudflare: 400 exceeded the maximum number " +
      "of rules in the phase http_request_firewall_custom: 6 out of 5 (50001). If there are too many rules, remove some " +
      "of the zone's own or choose a larger plan; hosts with the same originPort take one rule together. If an " +
      "expression is too long, write fewer, wider ranges in hooks[].sources.",
  ]);
  expect(await faultsWith(3)).toEqual([]);
  expect(await faultsWith(5, absent)).toEqual([]);
  // Only the ruleset was made: without a host that stays nothing is read.
  expect(api.requests.at(-1)).toMatchObject({ method: "POST" });
});

test("the preview names a hostname of a site or of a host that is a CNAME, and no other record", async () => {
  const withRecord = (name: string, type: string, content: string) => {
    api.zone.dns_records = [{ id: "r", name, type, content, proxied: true, ttl: 1 }];
    return faults(serving(settings));
  };
  expect(await withRecord(siteHostname, "CNAME", "old.example.net")).toEqual([
    expect.stringMatching(/^www\.example\.org is a CNAME to old\.example\.net, .*\. Remove the CNAME, then run/),
  ]);
  expect(await withRecord(exampleHost.hostname, "CNAME", "x.cfargotunnel.com")).toEqual([
    expect.stringMatching(/^hooks\.example\.org is a CNAME to x\.cfargotunnel\.com, /),
  ]);
  expect(await withRecord(siteHostname, "A", "203.0.113.80")).toEqual([]);
  expect(await withRecord("other.example.org", "CNAME", "old.example.net")).toEqual([]);
});

const [own, own6] = [exampleHost.address, "2001:db8::10"];
const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org", address: "203.0.113.80" };
const two: Settings = { ...settings, hosts: [exampleHost, { ...second, address6: "2001:db8::80" }] };
test.each<[string, string[], string[], others: string[]]>([
  ["as declared", [own], [own6], []],
  ["of the address before a change", ["203.0.113.80"], [], []],
  ["beside the declared ones", [own, "203.0.113.80"], [own6, "2001:db8::80"], ["203.0.113.80", "2001:db8::80"]],
])("a preview warns of no address of a hook's name but those that get a share: %s", async (_, v4, v6, others) => {
  warn.mockClear();
  const debug = vi.spyOn(pulumi.log, "debug").mockResolvedValue();
  onTestFinished(() => debug.mockRestore());
  api.zone.dns_records = [...v4, ...v6].map((content) => {
    const type = content.includes(":") ? "AAAA" : "A";
    return { ...{ id: content, name: exampleHost.hostname, type, content }, proxied: true, ttl: 1 };
  });
  expect(await faults(two)).toEqual([]);
  const items = others.map((before, i) => ({ before, item: `${exampleHost.hostname} ${["A", "AAAA"][i]}` }));
  const texts = items.map(({ before, item }) =>
    expect.stringContaining(`${item}: another record leads to ${before}, `),
  );
  expect(warn.mock.calls.map(([text]) => text)).toEqual(texts);
  const drift = { host: null, layer: "DNS records", kind: "undeclared", after: null };
  expect(debug.mock.calls.map(([text]) => driftIn(text))).toEqual(items.map((one) => ({ ...drift, ...one })));
});

test("a hostname two labels below the zone needs an active certificate that names it, or a wildcard of its parent", async () => {
  const host = { ...exampleHost, hostname: "hooks.web1.example.org" };
  const deeper: Settings = {
    ...serving(settings, { hostname: "blog.www.example.org" }),
    hosts: [{ ...exampleHost, name: "web0" }, host],
  };
  const [universal] = api.zone.certificate_packs;
  const faultsWith = (status: string, ...hosts: string[]): Promise<string[]> => {
    api.zone.certificate_packs = [universal!, { id: "p", type: "advanced", status, hosts }];
    return faults(deeper).finally(() => (api.zone.certificate_packs = [universal!]));
  };
  const fault = (name: string, instead: string, wildcard: string) =>
    `${name} has no certificate of the zone: the universal one covers one label below example.org. Use a name such as ` +
    `${instead}, or order an advanced certificate for ${wildcard} in Cloudflare's dashboard.`;
  const ofHost = fault("hooks.web1.example.org", "hooks-web1.example.org", "*.web1.example.org");
  const ofSite = fault("blog.www.example.org", "blog-www.example.org", "*.www.example.org");
  expect(await faultsWith("active", "other.web1.example.org", "*.example.net")).toEqual([ofHost, ofSite]);
  expect(await faultsWith("pending_validation", "*.web1.example.org", "*.www.example.org")).toEqual([ofHost, ofSite]);
  expect(await faultsWith("active", "hooks.web1.example.org", "*.www.example.org")).toEqual([]);
  expect(await faults({ ...settings, hosts: [exampleHost, { ...host, state: "absent" }] })).toEqual([]);
  // The token may lack the permission to read certificates.
  fails(/certificate_packs$/);
  expect(await faults(deeper)).toEqual([]);
});

test("the dry run costs five reads if the zone is as declared, and sends a rule of the zone's own as the API returned it", async () => {
  const own = { ref: "own", action: "block", expression: "ssl", enabled: true, description: "" };
  const logged = { ...own, logging: { enabled: true } };
  const set = { name: "default", kind: "zone", phase: "http_request_firewall_custom", rules: [logged] };
  const made = await client.result<Ruleset>("POST", "Z/rulesets", set);
  const rules = rulesOf(settings);
  const as = (name: keyof typeof rules) => ({ ...zone.phases[name], rules: rules[name] });
  const inSync = { custom: as("custom"), origin: as("origin"), config: as("config") };
  api.requests.length = 0;
  expect(await faults(settings, { ...zone, phases: inSync })).toEqual([]);
  expect(api.requests.map(({ method }) => method)).toEqual(Array(5).fill("GET"));

  const foreign = { ...inSync, custom: { ...inSync.custom, id: made.id, rules: [logged] } };
  expect(await faults(settings, { ...zone, phases: foreign })).toEqual([]);
  const sent = api.requests.find(({ method }) => method === "PUT")!.body.rules as Rule[];
  expect(sent.map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest", "own"]);
  expect(sent[2]).toMatchObject({ logging: { enabled: true }, id: made.rules[0]!.id });
  expect(api.zone.rulesets[0]!.rules).toHaveLength(1);
});

const isPreview = vi.spyOn(pulumi.runtime, "isDryRun");
afterAll(() => void vi.restoreAllMocks());

test.each([
  ["up fails with all faults", false, 6],
  ["a preview fails with what it cannot read, and warns of what `up` could not write", true, 3],
  ["a preview fails with a write that Cloudflare rejects for another reason than a permission", true, 4, 1],
])("%s", async (_, isPreviewed, faults, times = 0) => {
  api.faults.push({ path: /rulesets$/, times, status: 401 });
  isPreview.mockReturnValue(isPreviewed);
  warn.mockClear();
  tokens[apiToken] = [];
  const failure = await tryOut(plain(), settings, zone).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(CloudflareError);
  const lines = new RegExp(`^Cloudflare: ${faults} faults, nothing was changed:(\\n {2}the .*){${faults}}$`);
  expect((failure as Error).message).toMatch(lines);
  expect(warn.mock.calls.map(([text]) => text)).toEqual(
    Array(6 - faults).fill(
      expect.stringMatching(/rules that `up` would write to .*: 403 .* has the permission .* Edit/),
    ),
  );
});
