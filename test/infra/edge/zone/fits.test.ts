/** Faults that preview finds in the live zone before it sends anything; dry-run.test.ts tests the quotas. */
import { describe, expect, test } from "vitest";
import type { Plan, Settings } from "../../../../infra/config/settings.ts";
import { edgeFaults, rulesOf } from "../../../../infra/edge/zone/fits.ts";
import type { LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import type { PhaseName, Rule } from "../../../../infra/edge/zone/phase.ts";
import { networks } from "../../../../infra/networks.ts";
import { example, exampleHost } from "../../../fixtures.ts";

const skip: Rule = { ref: "a", action: "skip", expression: "true", enabled: true, description: "let the office in" };
const none = { name: "default", description: "" };
const liveZone = (plan: string, rules: Partial<Record<PhaseName, readonly Rule[]>> = {}): LiveZone => ({
  id: "z",
  name: "example.org",
  plan,
  phases: {
    custom: { ...none, rules: rules.custom ?? [] },
    origin: { ...none, rules: rules.origin ?? [] },
    config: { ...none, rules: rules.config ?? [] },
  },
});
const on = (plan: Plan, change: Partial<Settings> = {}): Settings => ({
  ...example,
  edge: { ...example.edge, plan },
  ...change,
});
test("the delivery rule with every published range fills less than half of Cloudflare's limit", () => {
  const sources = [networks.githubHooks, networks.gitlabHooks, networks.bitbucketHooks].flatMap(({ cidrs }) => cidrs);
  const published = on("pro", { hooks: [example.hooks[0]!, { ...example.hooks[1]!, sources }] });
  for (const settings of [example, published])
    for (const { expression } of Object.values(rulesOf(settings)).flat())
      expect(expression.length).toBeLessThan(4_096 / 2);
});

describe("plan and bots", () => {
  const free: Settings = on("free");
  test("preview rejects a plan that is not the zone's", () => {
    for (const plan of ["free", "business", "enterprise"])
      expect(edgeFaults(on("pro"), liveZone(plan))).toEqual([
        `pushgate:edge.plan is pro, but the zone example.org is on ${plan}, and the plan decides what a rule can skip. ` +
          `Write plan: ${plan}, or check that zone and token are the right ones.`,
      ]);
    expect(edgeFaults(on("free"), liveZone("pro"))[0]).toContain("Write plan: pro,");
    expect(edgeFaults(on("enterprise-bots"), liveZone("enterprise"))).toEqual([]);
    expect(edgeFaults(on("pro"), liveZone("partners_pro"))[0]).toContain("the plan whose features it shares");
  });
  test("preview reports all faults at once, and none of them stops a removal", () => {
    const live = { ...liveZone("free", { custom: [skip] }), botFightMode: true };
    expect(edgeFaults(on("pro"), live)).toHaveLength(3);
    expect(edgeFaults(free, live)).toHaveLength(2);
    const absent = on("pro", { hosts: [{ ...exampleHost, state: "absent" }] });
    expect(edgeFaults(absent, { ...liveZone("free"), botFightMode: true })).toEqual([]);
  });
});

test("preview rejects a rule of the zone's own if the provider would drop its settings", () => {
  expect(edgeFaults(example, liveZone("pro", { custom: [skip] }))[0]).toMatch(
    /the zone's own rule "let the office in" \(skip\) would lose settings .*\. Write the rule with others/,
  );
  for (const action of ["route", "set_config"])
    expect(edgeFaults(example, liveZone("pro", { origin: [{ ...skip, action }] }))).toEqual([
      `origin rules: the zone's own rule "let the office in" (${action}) would lose settings that the Pulumi provider does ` +
        'not know, such as phase: "current". Write the rule with others, such as ruleset: "current".',
    ]);
  expect(edgeFaults(example, liveZone("pro", { custom: [{ ...skip, action: "block" }] }))).toEqual([]);
  const whole = { ...skip, actionParameters: { ruleset: "current" } };
  expect(edgeFaults(example, liveZone("pro", { custom: [whole] }))).toEqual([]);
});
