/**
 * `npx pushgate trace` on what Cloudflare itself rejects: the product's security event names it, and the rule. The fix is
 * then applied while the product stays as it is, and the next delivery is accepted.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiToken, permissions } from "../../fakes/cloudflare/api.ts";
import { analyticsPermission } from "../../fakes/cloudflare/graphql.ts";
import { entryPoint, type Rule, type ZoneState } from "../../fakes/cloudflare/zone.ts";
import type { Change } from "../../fakes/deliveries.ts";
import { actors } from "../lab/net.ts";
import { endTracing, host, startTracing, tracedAs, world } from "../traced.ts";
import { hostnameOf } from "../world.ts";

let zone: ZoneState;
let asDeployed: ZoneState;

beforeAll(async () => {
  await startTracing("tracecf");
  zone = world.api.zone;
  asDeployed = structuredClone(zone);
});
afterAll(endTracing);
beforeEach(() => {
  world.api.tokens[apiToken] = [...permissions, analyticsPermission];
  Object.assign(zone, structuredClone(asDeployed));
});

/** Sends a delivery, and traces it by what the git host shows of the answer. */
async function traced(change: Change = {}) {
  const id = randomUUID();
  const answer = await world.deliver({ ...change, headers: { "x-github-delivery": id, ...change.headers } });
  const { code, certainty, names, outcomes } = await tracedAs(id, answer);
  const [first] = outcomes;
  return {
    status: answer.status,
    code,
    certainty,
    names,
    layer: first?.layer,
    fix: first?.fix,
  };
}
const certainly = (status: number, name: string, layer: string, fix: RegExp) => ({
  ...{ status, code: 1, certainty: "certain", names: [name], layer, fix: expect.stringMatching(fix) },
});
const statusOf = async (change: Change = {}): Promise<number> => (await world.deliver(change)).status;

const customRules = (): Rule[] => entryPoint(zone, "http_request_firewall_custom")!.rules;
const skipRule = (): Rule => customRules().find(({ action }) => action === "skip")!;
const rule = (change: Partial<Rule>): Rule => ({
  ...{ id: "f00d", ref: "office", version: "1", action: "block", enabled: true, description: "only the office" },
  ...{ expression: `http.host contains "example"`, last_updated: "2026-01-01T00:00:00Z" },
  ...change,
});
const access = (mode: string) => {
  const [value] = actors.github.v4;
  zone.access_rules.push({ id: "acce55", mode, configuration: { target: "ip", value }, notes: "abuse" });
};

describe("what runs before pushgate's rules, or is skipped by none", () => {
  test.each<[string, () => void, () => void, ReturnType<typeof certainly>]>([
    [
      "a custom rule of the zone's own that blocks",
      () => customRules().unshift(rule({})),
      () => customRules().shift(),
      certainly(403, "custom rule", "2 WAF", /the zone's own rule "only the office" f00d/),
    ],
    [
      "a custom rule of the zone's own that challenges",
      () => customRules().unshift(rule({ action: "managed_challenge" })),
      () => customRules().shift(),
      certainly(403, "challenge by a rule", "3 bot management", /the zone's own rule "only the office" f00d/),
    ],
    [
      "an IP Access rule that blocks",
      () => access("block"),
      () => zone.access_rules.pop(),
      certainly(403, "access rule", "2 WAF", /^Remove the rule acce55/),
    ],
    [
      "an IP Access rule that challenges",
      () => access("managed_challenge"),
      () => zone.access_rules.pop(),
      certainly(403, "challenge by a rule", "3 bot management", /from the rule acce55/),
    ],
    [
      "Bot Fight Mode",
      () => void Object.assign(zone, { plan: "free", bot_management: { ...zone.bot_management, fight_mode: true } }),
      () => void Object.assign(zone.bot_management, { fight_mode: false }),
      certainly(
        403,
        "Bot Fight Mode",
        "3 bot management",
        /^Run npx pulumi config set --path pushgate:edge.botFightMode off/,
      ),
    ],
  ])("%s", async (_, make, undo, seen) => {
    make();
    expect(await traced()).toEqual(seen);
    undo();
    expect(await statusOf()).toBe(202);
  });

  test("a path that the rules do not declare is rejected by pushgate's own rule", async () => {
    expect(await traced({ path: "/webhook/other" })).toEqual(
      certainly(403, "not declared", "2 WAF", /npx pushgate hook prints/),
    );
  });
});

/** A product, the word in pushgate's skip rule that keeps a delivery from it, and what sends such a delivery. */
const products: readonly [word: string, on: () => void, change: Change, seen: ReturnType<typeof certainly>][] = [
  [
    "http_request_sbfm",
    () => void Object.assign(zone.bot_management, { sbfm_definitely_automated: "managed_challenge" }),
    {},
    certainly(403, "Super Bot Fight Mode", "3 bot management", /^npx pulumi up restores/),
  ],
  [
    "http_request_firewall_managed",
    () => {},
    { payload: { ref: "refs/heads/main", after: "1".repeat(40), commits: [{ message: "log ${jndi:ldap://x}" }] } },
    certainly(403, "managed rule", "2 WAF", /^npx pulumi up restores/),
  ],
  [
    "http_ratelimit",
    () => {
      const ratelimit = {
        characteristics: ["cf.colo.id", "ip.src"],
        period: 10,
        requests_per_period: 0,
        mitigation_timeout: 10,
      };
      const rules = [rule({ id: "ra7e", ref: "rate", description: "slow down", ratelimit })];
      const { phase: _, ...shape } = entryPoint(zone, "http_request_firewall_custom")!;
      zone.rulesets.push({ ...shape, id: "ra7e0", phase: "http_ratelimit", rules });
    },
    {},
    certainly(429, "rate limit", "2 WAF", /the zone's own rule "slow down" ra7e/),
  ],
  [
    "securityLevel",
    () => void Object.assign(zone.settings, { security_level: "under_attack" }),
    {},
    certainly(403, "security level", "3 bot management", /^npx pulumi up restores/),
  ],
  [
    "bic",
    () => {},
    { headers: { "user-agent": "python-urllib/3.13" } },
    certainly(403, "browser check", "3 bot management", /^npx pulumi up restores/),
  ],
  [
    "uaBlock",
    () => void zone.user_agent_blocks.push("GitHub-Hookshot/blocked"),
    { headers: { "user-agent": "GitHub-Hookshot/blocked" } },
    certainly(403, "user agent rule", "2 WAF", /^npx pulumi up restores/),
  ],
  [
    "zoneLockdown",
    () => void zone.lockdowns.push({ prefix: `${hostnameOf(host)}/`, addresses: ["198.51.100.0/24"] }),
    {},
    certainly(403, "zone lockdown", "2 WAF", /^npx pulumi up restores/),
  ],
];

/** Removes it from the list that has it. */
function withoutWord(word: string): void {
  const parameters = skipRule().action_parameters!;
  const all = [...parameters.phases!, ...parameters.products!];
  expect(all).toContain(word);
  parameters.phases = parameters.phases!.filter((one) => one !== word);
  parameters.products = parameters.products!.filter((one) => one !== word);
}

describe("what pushgate's rule skips, after a manual change removed the word from it", () => {
  test.each(products)("%s", async (word, on, change, seen) => {
    on();
    withoutWord(word);
    expect(await traced(change)).toEqual(seen);
    skipRule().action_parameters = structuredClone(asDeployed)
      .rulesets.flatMap(({ rules }) => rules)
      .find(({ action }) => action === "skip")!.action_parameters!;
    expect(await statusOf(change)).toBe(202);
  });

  test("with all of them on and the rule deleted, `pulumi up` is the fix", async () => {
    for (const [, on] of products.slice(3)) on();
    customRules().splice(customRules().indexOf(skipRule()), 1);
    expect(await traced()).toEqual(certainly(403, "not declared", "2 WAF", /npx pulumi preview what was changed/));
    expect((await world.stack.up()).code).toBe(0);
    expect(await traced()).toMatchObject({ status: 202, code: 0, certainty: "certain", names: ["accepted"] });
    for (const [, , change] of products.slice(3)) expect(await statusOf(change)).toBe(202);
  });
});

test("a token without the permission: less certain, and the true outcome is among those that are left", async () => {
  access("block");
  world.api.tokens[apiToken] = permissions;
  const { code, certainty, names } = await traced();
  // The body, which a git host's API has, is not typed.
  expect([code, certainty]).toEqual([3, "unknown"]);
  expect(names).toContain("access rule");
});
