/**
 * The live zone, read from the fake API, and the resources that are declared for it. test/engine/edge-drift.test.ts has
 * that rules of the zone's own stay, and test/engine/lock.test.ts what protects them.
 */
import * as pulumi from "@pulumi/pulumi";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Plan, Settings } from "../../../../infra/config/settings.ts";
import { cloudflareApi, zoneNamed } from "../../../../infra/edge/api.ts";
import { bots } from "../../../../infra/edge/bots.ts";
import { dns } from "../../../../infra/edge/dns.ts";
import { originCertificate } from "../../../../infra/edge/origin-certificate.ts";
import { assertFits, rulesOf } from "../../../../infra/edge/zone/fits.ts";
import { inspect } from "../../../../infra/edge/zone/live-zone.ts";
import { keeper, ruleset } from "../../../../infra/edge/zone/lock.ts";
import { foreignRules, phaseNames, quoted, type Rule } from "../../../../infra/edge/zone/phase.ts";
import { apiToken, permissions, startApi } from "../../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../../fakes/cloudflare/zone.ts";
import { example, exampleHost, served, siteHostname } from "../../../fixtures.ts";
import { setMocks } from "../../mocks.ts";

// biome-ignore lint/suspicious/noExplicitAny: a resource's inputs have as many shapes as there are resources
type Seen = { type: string; name: string; inputs: any };

const tokens: Record<string, readonly string[]> = {};
const api = await startApi({ zone: emptyZone("example.org", "pro"), tokens });
const client = () => cloudflareApi({ baseUrl: api.url, token: apiToken });
afterAll(() => api.close());

let declared: Seen[];

/** A rule as the API answers: with what it computes, and with fields that are not set. */
const live = (ref: string, description = "") => ({
  ...{ id: "id", version: "7", last_updated: "2026-01-01T00:00:00Z", categories: ["waf"], ratelimit: null },
  ...{ ref, action: "block", expression: "ssl", enabled: true, description },
  action_parameters: { host_header: "a.example.org", origin: {}, products: [] },
});
const ownRules: Rule[] = [live("id1", "office"), live("blocks"), live("id3", "all")];
const formerRule = live("pushgate_rest");
const named = { name: "the operator's name", description: "since 2019", version: "1", last_updated: "" };
const phase = "http_request_firewall_custom";
const managed = { ...named, id: "rs0", kind: "managed", phase, rules: [formerRule] };
const entry = { ...managed, id: "rs1", kind: "zone", rules: [...ownRules, formerRule] };

/** The zone at Cloudflare from now on. */
function zone(plan: Plan, own: readonly object[] = [], bots: object = {}): void {
  const { id } = api.zone;
  Object.assign(api.zone, emptyZone("example.org", plan), { id, rulesets: [managed, ...own] });
  Object.assign(api.zone.bot_management, bots);
}

async function declare(settings: Settings): Promise<Seen[]> {
  const live = await inspect(client(), settings.zone);
  assertFits(settings, live);
  const rules = rulesOf(settings);
  const keep = keeper(client(), live);
  for (const name of phaseNames) ruleset(live, name, rules[name], keep);
  bots(settings, live);
  await pulumi.runtime.disconnect();
  return declared;
}
const expiresOn = new Date(Date.now() + 10.5 * 86_400_000).toISOString();
beforeEach(async () => {
  declared = [];
  tokens[apiToken] = permissions;
  await setMocks({
    newResource: ({ type, name, inputs }) => {
      declared.push({ type: type.split(":").at(-1)!, name, inputs });
      return { id: `${name}-id`, state: { ...inputs, expiresOn } };
    },
  });
});
afterEach(() => vi.restoreAllMocks());

const free: Settings = { ...example, edge: { ...example.edge, plan: "free", botFightMode: "off" } };
const absent: Settings = { ...example, hosts: [{ ...exampleHost, state: "absent" }] };

test("no site leads to a lost host, which keeps its own records, and no record leads to an absent host", async () => {
  const lost = { ...exampleHost, name: "web2", hostname: "web2.example.org", state: "lost" as const };
  const pasted = { ...exampleHost, address6: "2001:0DB8:0::0010" };
  dns({ ...served, hosts: [pasted, lost, { ...lost, hostname: "web3.example.org", state: "absent" }] }, "z");
  await pulumi.runtime.disconnect();
  const own = [exampleHost, lost].flatMap(({ hostname }) => [`${hostname} A`, `${hostname} AAAA`]);
  const ofSite = [`${siteHostname} A ${exampleHost.address}`, `${siteHostname} AAAA ${exampleHost.address6}`];
  expect(declared.map(({ name }) => name)).toEqual([...own, ...ofSite]);
});

test("an origin certificate names its hostnames in order, ignores its validity, and warns before it expires", async () => {
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  const options: pulumi.CustomResourceOptions[] = [];
  const note: pulumi.ResourceTransformation = ({ opts }) => void options.push(opts);
  const hostnames = ["www.example.org", "a.example.org", "hooks.example.org"];
  originCertificate({ hostname: "hooks.example.org", hostnames, csr: "csr" }, { transformations: [note] });
  await pulumi.runtime.disconnect();
  const inputs = { csr: "csr", requestType: "origin-ecc", requestedValidity: 5475, hostnames: hostnames.toSorted() };
  expect(declared).toMatchObject([{ name: "hooks.example.org origin certificate", inputs }]);
  expect(options.map(({ ignoreChanges }) => ignoreChanges)).toEqual([["requestedValidity"]]);
  const says =
    /^the origin certificate of hooks\.example\.org expires in 10 days, .* Remove \/etc\/pushgate\/tls\/origin\.key /;
  expect(warn.mock.calls).toEqual([[expect.stringMatching(says), expect.anything()]]);
});

test("no rules are in a ruleset that is returned without rules or description, or that the zone lacks", async () => {
  zone("pro", [{ ...entry, rules: undefined, description: undefined }]);
  const { custom, origin } = (await inspect(client(), "example.org")).phases;
  expect(custom).toEqual({ id: "rs1", name: "the operator's name", description: "", rules: [] });
  expect(origin).toEqual({ name: "default", description: "", rules: [] });
});
test("rules are read in the provider's spelling, without what is not set", async () => {
  zone("pro", [{ ...entry, rules: [live("own")] }]);
  const set = { ref: "own", action: "block", expression: "ssl", enabled: true, description: "" };
  const rules = [{ ...set, actionParameters: { hostHeader: "a.example.org" } }];
  expect((await inspect(client(), "example.org")).phases.custom.rules).toStrictEqual(rules);
});
test("rules are the zone's own without a ref, too, and have their descriptions or refs in messages", async () => {
  const { ref: _, ...nameless } = ownRules[2]!;
  expect(foreignRules([nameless as Rule, ...ownRules])).toHaveLength(4);
  expect(quoted(ownRules)).toBe('"office", "blocks", "all"');
});

test("a ruleset that the stack may not hold yet is named, if it has no rule of pushgate's and one goes in", async () => {
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  const declaring = (settings: Settings, rules: readonly object[]) => {
    zone("pro", [{ ...entry, rules }]);
    return declare(settings);
  };
  await declaring(example, [...ownRules, formerRule]);
  await declaring(absent, ownRules);
  expect(warn).not.toHaveBeenCalled();
  await declaring(example, ownRules);
  const says = /^the zone example\.org has a ruleset for custom rules without a rule of pushgate, /;
  expect(warn.mock.calls).toEqual([[expect.stringMatching(says)]]);
});

test.each([true, false])(
  "on free, by the operator's choice, Bot Fight Mode goes off, and a managed robots.txt (%s) stays as it is",
  async (isRobotsTxtManaged) => {
    zone("free", [], { fight_mode: true, is_robots_txt_managed: isRobotsTxtManaged });
    const found = (await declare(free)).filter(({ type }) => type === "BotManagement");
    expect(found.map(({ inputs }) => inputs)).toEqual([
      { zoneId: api.zone.id, fightMode: false, enableJs: true, isRobotsTxtManaged },
    ]);
  },
);
test("on free, without the choice, nothing is declared, or without Bot Fight Mode all but bots", async () => {
  const undecided: Settings = { ...example, edge: { ...example.edge, plan: "free" } };
  zone("free", [], { fight_mode: true });
  await expect(declare(undecided)).rejects.toThrow("pushgate:edge.botFightMode off");
  expect(declared).toEqual([]);
  zone("free", [], { fight_mode: null });
  const types = (await declare(undecided)).map(({ type }) => type);
  expect(types).toContain("Ruleset");
  expect(types).not.toContain("BotManagement");
});
test("a removal warns that Bot Fight Mode stays off", async () => {
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  zone("free", [], { fight_mode: false });
  expect(await declare({ ...free, hosts: absent.hosts })).toEqual([]);
  expect(warn).toHaveBeenCalledWith(expect.stringContaining("Bot Fight Mode stays off"));
});

const within =
  "a name in the zone example.org and no zone itself. Run: npx pulumi config set pushgate:zone example.org";
const unknown =
  "and cloudflare:apiToken can read no zone of that name. Correct the name, or add the zone to the token's";
test.each([
  ["blog.example.org", within],
  ["a.b.example.org", within],
  ["example.net", unknown],
  ["blog.example.net", unknown],
])(
  "preview names %s, which the token cannot read, with the zone that it is in, if that is known",
  async (name, says) => {
    const fault = `Cloudflare: 1 fault, nothing was changed:\n  pushgate:zone is "${name}", ${says}`;
    await expect(inspect(client(), name)).rejects.toThrow(fault);
  },
);

test("of two zones with a name the program takes the active one", async () => {
  const all = ["moved", "active", "pending"].map((status) => ({ id: status, name: "example.org", status }));
  const body = JSON.stringify({ success: true, result: all, result_info: { total_pages: 1 } });
  api.faults.push({ times: 1, status: 200, body });
  expect((await zoneNamed(client(), "example.org"))?.id).toBe("active");
});

test.each([
  ["the zone example.org", "Zone"],
  ["the zone's custom rules", "Zone WAF"],
  ["the zone's origin rules", "Origin Rules"],
  ["the zone's configuration rules", "Config Rules"],
  ["the bot settings of example.org", "Bot Management"],
])("preview names the permission that it needs for %s", async (what, permission) => {
  zone("free", [entry]);
  tokens[apiToken] = permissions.filter((one) => !one.startsWith(`${permission} `));
  const failure = await inspect(client(), "example.org").catch((error: Error) => error);
  expect(failure).toBeInstanceOf(pulumi.RunError);
  expect((failure as Error).message).toMatch(
    `${what} cannot be read: 403 Authentication error (10000). Check that cloudflare:apiToken is valid, belongs to this zone ` +
      `and has the permission ${permission} Read.`,
  );
});
