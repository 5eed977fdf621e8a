/** What does not fit is said before anything is sent: how much, whose it is, and what would fit. */
import { describe, expect, test } from "vitest";
import type { Plan, Settings } from "../../../../infra/config/settings.ts";
import { customRules } from "../../../../infra/edge/waf.ts";
import { edgeFaults, rulesOf } from "../../../../infra/edge/zone/fits.ts";
import type { LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import { type PhaseName, phases, type Rule } from "../../../../infra/edge/zone/phase.ts";
import { longestExpression, quotaFaults, ruleLimits } from "../../../../infra/edge/zone/quota.ts";
import { networks } from "../../../../infra/networks.ts";
import { example, exampleHost } from "../../../example.ts";
import { compile } from "../../../fakes/cloudflare/expression.ts";

const foreign = (count: number): Rule[] =>
  Array.from({ length: count }, (_, i) => ({
    ref: `theirs${i}`,
    action: "block",
    expression: 'http.request.uri.path eq "/admin"',
    enabled: i % 2 === 0,
    description: i === 0 ? "" : `rule ${i}`,
  }));

const none = { name: "default", description: "", written: false, rules: [] };
const liveZone = (plan: string, rules: Partial<Record<PhaseName, readonly Rule[]>> = {}): LiveZone => ({
  id: "z",
  name: "example.org",
  plan,
  phases: {
    custom: { ...none, foreign: rules.custom ?? [] },
    origin: { ...none, foreign: rules.origin ?? [] },
    config: { ...none, foreign: rules.config ?? [] },
  },
});
const on = (plan: Plan, change: Partial<Settings> = {}): Settings => ({
  ...example,
  edge: { ...example.edge, plan },
  ...change,
});
/** Self-hosted ranges that fill `characters` and more. */
const ranges = (characters: number): string[] =>
  Array.from({ length: Math.ceil(characters / 17) }, (_, i) => `2001:db8:${(4096 + i).toString(16)}::/48`);

describe("rules", () => {
  test.each(["free", "pro", "business", "enterprise", "enterprise-bots"] as const)("the %s plan's last one", (plan) => {
    for (const phase of Object.keys(phases) as PhaseName[]) {
      const ours = rulesOf(on(plan))[phase];
      const room = ruleLimits[phase][plan] - ours.length;
      expect(quotaFaults(plan, phase, ours, foreign(room))).toEqual([]);
      expect(quotaFaults(plan, phase, ours, foreign(room + 1))).toHaveLength(1);
    }
  });
  test("names the zone's own, and both ways out", () => {
    expect(edgeFaults(on("free"), liveZone("free", { custom: foreign(4) }))).toEqual([
      'custom rules: pushgate\'s 2 and the zone\'s own 4 ("theirs0", "rule 1", "rule 2", "rule 3") make 6, and the free ' +
        "plan holds 5: remove 1 of the zone's own, or take the pro plan, which holds 20",
    ]);
  });
  test("too many ports", () => {
    const hosts = Array.from({ length: 11 }, (_, i) => ({
      ...exampleHost,
      hostname: `h${i}.example.org`,
      originPort: 8443 + i,
    }));
    expect(edgeFaults(on("free", { hosts }), liveZone("free"))).toEqual([
      "origin rules: pushgate's 11 make 11, and the free plan holds 10: give the hosts the same originPort, which takes " +
        "one rule, or take the pro plan, which holds 25",
    ]);
  });
});

describe("expressions", () => {
  const docs = (sources: readonly string[]): Settings =>
    on("pro", { hooks: [example.hooks[0]!, { ...example.hooks[1]!, sources }] });
  test("the example's and every published range together fit", () => {
    const published = [networks.githubHooks, networks.gitlabHooks, networks.bitbucketHooks].flatMap(
      ({ cidrs }) => cidrs,
    );
    for (const settings of [example, docs(published)])
      for (const { expression } of Object.values(rulesOf(settings)).flat())
        expect(expression.length).toBeLessThan(longestExpression / 2);
  });
  test("one that is too long says whose ranges make it so; the edge itself would refuse it", () => {
    const settings = docs(ranges(4_000));
    const { expression } = customRules(settings)[0]!;
    expect(() => compile(expression)).toThrow("the maximum is 4096");
    const [fault, ...others] = edgeFaults(settings, liveZone("pro"));
    expect(others).toEqual([]);
    expect(fault).toContain(`pushgate_delivery is ${expression.length} characters long`);
    expect(fault).toMatch(
      /ranges make up docs \d+ \(236 ranges\), github \d+ \(9 ranges\)\. Write fewer, wider ranges/,
    );
  });
  test("the last character that fits", () => {
    const [skip, rest] = customRules(example) as [Rule, Rule];
    const padded = (length: number) => [{ ...skip, expression: skip.expression.padEnd(length) }, rest];
    expect(quotaFaults("pro", "custom", padded(longestExpression), [])).toEqual([]);
    expect(quotaFaults("pro", "custom", padded(longestExpression + 1), [])).toHaveLength(1);
  });
});

describe("plan and bots", () => {
  const free: Settings = on("free");
  test("a plan that is not the zone's", () => {
    expect(edgeFaults(on("pro"), liveZone("free"))[0]).toMatch(
      /edge\.plan says pro, but the zone example\.org is on free.*Write plan: free/s,
    );
    expect(edgeFaults(on("enterprise-bots"), liveZone("enterprise"))).toEqual([]);
    expect(edgeFaults(on("pro"), liveZone("partners_pro"))[0]).toContain("the plan whose limits it shares");
  });
  test("Bot Fight Mode on, and no choice made: names both cures", () => {
    const [fault, ...others] = edgeFaults(free, { ...liveZone("free"), botFightMode: true });
    expect(others).toEqual([]);
    expect(fault).toMatch(/403.*botFightMode: off.*pro plan/s);
    expect(edgeFaults(free, { ...liveZone("free"), botFightMode: false })).toEqual([]);
    const chosen: Settings = { ...free, edge: { ...free.edge, botFightMode: "off" } };
    expect(edgeFaults(chosen, { ...liveZone("free"), botFightMode: true })).toEqual([]);
  });
  test("all faults at once, and none of them stops a removal", () => {
    const live = { ...liveZone("free", { custom: foreign(4) }), botFightMode: true };
    expect(edgeFaults(on("free", { edge: { ...example.edge, plan: "pro" } }), live)).toHaveLength(2);
    expect(edgeFaults(free, live)).toHaveLength(2);
    expect(edgeFaults({ ...free, hosts: [{ ...exampleHost, state: "absent" }] }, live)).toEqual([]);
  });
});

test("a rule of the zone's own that the provider would empty is named instead of being carried", () => {
  const skip: Rule = { ref: "a", action: "skip", expression: "true", enabled: true, description: "let the office in" };
  expect(edgeFaults(example, liveZone("pro", { custom: [skip] }))[0]).toMatch(/"let the office in".*would lose them/);
  const whole = { ...skip, actionParameters: { ruleset: "current" } };
  expect(edgeFaults(example, liveZone("pro", { custom: [whole] }))).toEqual([]);
});
