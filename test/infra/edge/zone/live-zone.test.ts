/** The live zone, read through the provider's functions, and the resources that are declared for it. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Settings } from "../../../../infra/config/settings.ts";
import { bots } from "../../../../infra/edge/bots.ts";
import { records } from "../../../../infra/edge/dns.ts";
import { originCertificate } from "../../../../infra/edge/origin-certificate.ts";
import { assertFits, rulesOf } from "../../../../infra/edge/zone/fits.ts";
import { inspect } from "../../../../infra/edge/zone/live-zone.ts";
import { keeper, ruleset } from "../../../../infra/edge/zone/lock.ts";
import { foreignRules, phaseNames, quoted, type Rule } from "../../../../infra/edge/zone/phase.ts";
import { example, exampleHost, served, siteHostname } from "../../../fixtures.ts";
import { setMocks } from "../../mocks.ts";

// biome-ignore lint/suspicious/noExplicitAny: a resource's inputs have as many shapes as there are resources
type Seen = { type: string; name: string; inputs: any };
type Answers = Readonly<Record<string, unknown>>;
const zoneId = "0123456789abcdef0123456789abcdef";

let declared: Seen[];
/** The options of each declared ruleset: "custom rules: beforeUpdate, beforeDelete". */
let kept: string[];

const common = { enabled: true, description: "" };
/** What is left of the zone's own rules as inputs. */
const carried: Rule[] = [
  {
    ...{ ...common, ref: "id1", action: "skip", expression: "ip.src in $office", description: "office" },
    logging: { enabled: false },
    actionParameters: { phases: ["http_ratelimit"] },
  },
  {
    ...{ ...common, ref: "blocks", action: "block", expression: "cf.waf.score lt 20", enabled: false },
    actionParameters: { response: { statusCode: 404, content: "no", contentType: "text/plain" } },
  },
  { ...common, ref: "id3", action: "managed_challenge", expression: "true", description: "all" },
];
/** As the provider answers: every field there is, unset ones null or empty. */
const unset = {
  ...{ actionParameters: null, categories: [], exposedCredentialCheck: null, logging: null, ratelimit: null },
  ...{ version: "7", lastUpdated: "2026-01-01T00:00:00Z" },
};
const ownRules = carried.map((rule, i) => ({
  ...{ ...unset, id: `id${i}`, categories: ["waf"] },
  ...rule,
  ...(rule.actionParameters && {
    actionParameters: { ruleset: null, products: [], phases: [], origin: { host: null }, ...rule.actionParameters },
  }),
}));
const formerRule = { ...unset, id: "id9", ref: "pushgate_rest", action: "block", expression: "old", enabled: false };

const entry = { id: "rs1", kind: "zone", phase: "http_request_firewall_custom", name: "the operator's name" };
const managed = { id: "rs0", kind: "managed", phase: "http_request_firewall_custom", name: "not an entry point" };
const zone = (legacyId: string): Answers => ({ getZone: { id: zoneId, plan: { legacyId } } });
const occupied: Answers = {
  getRulesets: { rulesets: [managed, entry] },
  getRuleset: { ...entry, description: "since 2019", rules: [ownRules[0], formerRule, ownRules[1], ownRules[2]] },
};
const empty: Answers = { getRulesets: { rulesets: [managed] } };

async function mock(answers: Answers): Promise<void> {
  await setMocks({
    call: ({ token, inputs }) => {
      const answer = answers[token.split(":").at(-1)!];
      if (answer === undefined) throw new Error(`${token} was called and has no answer`);
      if (answer instanceof Error) throw answer;
      if (token.endsWith("getRuleset")) expect(inputs).toEqual({ zoneId, id: "rs1" });
      else if (!token.endsWith("getZone")) expect(inputs).toEqual({ zoneId });
      return answer as object;
    },
    newResource: ({ type, name, inputs }) => {
      declared.push({ type: type.split(":").at(-1)!, name, inputs });
      return { id: `${name}-id`, state: inputs };
    },
  });
}

async function declare(settings: Settings): Promise<Seen[]> {
  const live = await inspect(settings.zone);
  assertFits(settings, live);
  const rules = rulesOf(settings);
  const keep = keeper(live);
  const note: pulumi.ResourceTransformation = ({ name, opts }) => {
    const { hooks, retainOnDelete } = opts as pulumi.CustomResourceOptions;
    kept.push(`${name}: ${[...Object.keys(hooks ?? {}), ...(retainOnDelete ? ["retained"] : [])].join(", ")}`);
    return undefined;
  };
  for (const name of phaseNames) ruleset(live, name, rules[name], keep, { transformations: [note] });
  bots(settings, live);
  await pulumi.runtime.disconnect();
  return declared;
}
beforeEach(() => {
  declared = [];
  kept = [];
});
afterEach(() => vi.restoreAllMocks());

const free: Settings = { ...example, edge: { ...example.edge, plan: "free", botFightMode: "off" } };
const absent: Settings = { ...example, hosts: [{ ...exampleHost, state: "absent" }] };

test("the rulesets of an empty zone are made with pushgate's rules, and a destroy looks at them first", async () => {
  await mock({ ...zone("pro"), ...empty });
  const resources = await declare(example);
  expect(resources.map(({ type }) => type)).toEqual(Array(3).fill("Ruleset"));
  for (const { inputs } of resources)
    expect(inputs).toMatchObject({ zoneId, kind: "zone", name: "default", description: "" });
  expect(kept).toEqual(["custom", "origin", "configuration"].map((name) => `${name} rules: beforeDelete`));
});

test("no site leads to a lost host, which keeps its own records", () => {
  const lost = { ...exampleHost, name: "web2", hostname: "web2.example.org", state: "lost" as const };
  const names = records({ ...served, hosts: [exampleHost, lost] }).map(({ name }) => name);
  expect(names).toEqual([exampleHost, lost, { hostname: siteHostname }].flatMap((one) => Array(2).fill(one.hostname)));
});

test("an origin certificate names its hostnames in order, ignores its validity, and warns before it expires", async () => {
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  const options: pulumi.CustomResourceOptions[] = [];
  const expiresOn = new Date(Date.now() + 10.5 * 86_400_000).toISOString();
  await setMocks({
    call: () => ({}),
    newResource: ({ type, name, inputs }) => {
      declared.push({ type, name, inputs });
      return { id: name, state: { ...inputs, expiresOn } };
    },
  });
  const note: pulumi.ResourceTransformation = ({ opts }) => void options.push(opts);
  const hostnames = ["www.example.org", "a.example.org", "hooks.example.org"];
  originCertificate({ hostname: "hooks.example.org", hostnames, csr: "csr" }, { transformations: [note] });
  await pulumi.runtime.disconnect();
  expect(declared).toMatchObject([
    {
      name: "hooks.example.org origin certificate",
      inputs: { csr: "csr", requestType: "origin-ecc", requestedValidity: 5475, hostnames: hostnames.toSorted() },
    },
  ]);
  expect(options.map(({ ignoreChanges }) => ignoreChanges)).toEqual([["requestedValidity"]]);
  expect(warn.mock.calls.map(([text]) => text)).toEqual([
    "the origin certificate of hooks.example.org expires in 10 days, and every delivery fails from then on. Remove " +
      "/etc/pushgate/tls/origin.key on the host and run npx pulumi up, which makes a new key and certificate.",
  ]);
});

describe("rules of the zone's own", () => {
  test("stay unchanged after pushgate's rules, under the ruleset's own name, and are read again before a write", async () => {
    await mock({ ...zone("pro"), ...occupied });
    const custom = (await declare(example)).find(({ name }) => name === "custom rules");
    expect(custom?.inputs).toMatchObject({ name: "the operator's name", description: "since 2019" });
    expect(custom?.inputs.rules).toEqual([...rulesOf(example).custom, ...carried]);
    expect(kept[0]).toBe("custom rules: beforeUpdate, beforeDelete");
  });
  test("stay alone if every host is absent, and are retained when the stack forgets them", async () => {
    await mock({ ...zone("pro"), ...occupied });
    const left = await declare(absent);
    expect(left.map(({ name }) => name)).toEqual(["custom rules"]);
    expect(left[0]!.inputs.rules).toEqual(carried);
    expect(kept).toEqual(["custom rules: beforeUpdate, retained"]);
  });
  test("are found under the provider's older name for the list, too", async () => {
    await mock({ ...zone("pro"), ...occupied, getRulesets: { results: [managed, entry] } });
    expect((await inspect("example.org")).phases.custom).toMatchObject({ id: "rs1", name: "the operator's name" });
  });
  test("are none in a ruleset that is returned without rules or description", async () => {
    await mock({ ...zone("pro"), ...occupied, getRuleset: entry });
    expect((await inspect("example.org")).phases.custom).toEqual({
      ...{ id: "rs1", name: "the operator's name", description: "", rules: [] },
    });
  });
  test("are the zone's own without a ref, too, and have their descriptions or refs in messages", async () => {
    const { ref: _, ...nameless } = carried[2]!;
    expect(foreignRules([nameless as Rule, ...carried])).toHaveLength(4);
    expect(quoted(carried)).toBe('"office", "blocks", "all"');
  });
});

describe("a ruleset that the stack may not hold yet", () => {
  const warnings = async (settings: Settings, rules: readonly object[]): Promise<unknown[]> => {
    const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
    await mock({ ...zone("pro"), ...occupied, getRuleset: { ...entry, rules } });
    await declare(settings);
    return warn.mock.calls.map(([text]) => text);
  };
  test("is named with the command that takes it over", async () => {
    expect(await warnings(example, ownRules)).toEqual([
      expect.stringMatching(/^the zone example\.org has a ruleset for custom rules without a rule of pushgate, /),
    ]);
  });
  test("is not named once pushgate's rules are in it, nor if none goes in", async () => {
    expect(await warnings(example, [...ownRules, formerRule])).toEqual([]);
    expect(await warnings(absent, ownRules)).toEqual([]);
  });
});

describe("bots", () => {
  test.each([true, false])(
    "on free, by the operator's choice, Bot Fight Mode goes off, and a managed robots.txt (%s) stays as it is",
    async (isRobotsTxtManaged) => {
      await mock({ ...zone("free"), ...empty, getBotManagement: { fightMode: true, isRobotsTxtManaged } });
      const found = (await declare(free)).filter(({ type }) => type === "BotManagement");
      expect(found.map(({ inputs }) => inputs)).toEqual([
        { zoneId, fightMode: false, enableJs: true, isRobotsTxtManaged },
      ]);
    },
  );
  const undecided: Settings = { ...example, edge: { ...example.edge, plan: "free" } };
  test("on free, without the choice, nothing is declared", async () => {
    await mock({ ...zone("free"), ...empty, getBotManagement: { fightMode: true } });
    await expect(declare(undecided)).rejects.toThrow("pushgate:edge.botFightMode off");
    expect(declared).toEqual([]);
  });
  test("on free, without the choice and where Bot Fight Mode is unset, everything but bots is declared", async () => {
    await mock({ ...zone("free"), ...empty, getBotManagement: { fightMode: null } });
    const types = (await declare(undecided)).map(({ type }) => type);
    expect(types).toContain("Ruleset");
    expect(types).not.toContain("BotManagement");
  });
  test("a removal warns that Bot Fight Mode stays off", async () => {
    const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
    await mock({ ...zone("free"), ...empty, getBotManagement: { fightMode: false } });
    expect(await declare({ ...free, hosts: absent.hosts })).toEqual([]);
    expect(warn).toHaveBeenCalledWith(expect.stringContaining("Bot Fight Mode stays off"));
  });
});

describe("a zone that the account lacks", () => {
  /** As the provider answers, where the account has these zones. */
  const having = (...names: string[]) =>
    setMocks({
      call: ({ inputs }) => {
        const { name } = inputs.filter as { name: string };
        const details = `failed to find exactly one result: found 0 zones named ${name}`;
        if (!names.includes(name)) throw Object.assign(new Error(), { details });
        return { id: zoneId, plan: { legacyId: "pro" } };
      },
      newResource: ({ name, inputs }) => ({ id: name, state: inputs }),
    });
  test.each(["blog.example.org", "a.b.example.org"])("%s is named with the zone that it is in", async (zone) => {
    await having("example.org", "example.com", "org");
    await expect(inspect(zone)).rejects.toThrow(
      `Cloudflare: 1 fault, nothing was changed:\n  pushgate:zone is "${zone}", a name in the zone example.org and no ` +
        "zone itself. Run: npx pulumi config set pushgate:zone example.org",
    );
  });
  test.each(["example.net", "blog.example.net"])("%s is not, if no zone above it is known", async (zone) => {
    await having("example.org", "net");
    await expect(inspect(zone)).rejects.toThrow(`the zone ${zone} cannot be read: failed to find exactly one result`);
  });
});

describe("preview names the permission that it needs for", () => {
  test.each([
    ["getZone", "the zone example.org", "Zone Read"],
    ["getRulesets", "the rulesets of example.org", "Zone WAF Read"],
    ["getRuleset", "the zone's custom rules", "Zone WAF Read"],
    ["getBotManagement", "the bot settings of example.org", "Bot Management Read"],
  ])("%s", async (token, what, permission) => {
    // As the engine reports it.
    const refusal = Object.assign(new Error(), { details: "403 Forbidden\n  Authentication error (10000)\n" });
    await mock({ ...zone("free"), ...occupied, getBotManagement: { fightMode: false }, [token]: refusal });
    const failure = await inspect("example.org").catch((error: Error) => error);
    expect(failure).toBeInstanceOf(pulumi.RunError);
    expect((failure as Error).message).toMatch(
      `${what} cannot be read: 403 Forbidden Authentication error (10000). Check that cloudflare:apiToken is set, belongs to ` +
        `this zone and has the permission ${permission}.`,
    );
  });
});
