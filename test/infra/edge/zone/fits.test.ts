/** Faults that preview finds in the live zone before it sends anything; dry-run.test.ts tests the quotas. */
import { expect, test } from "vitest";
import type { Plan, Settings } from "../../../../infra/config/settings.ts";
import { edgeFaults, rulesOf } from "../../../../infra/edge/zone/fits.ts";
import type { LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import type { PhaseName, Rule } from "../../../../infra/edge/zone/phase.ts";
import { networks } from "../../../../infra/networks.ts";
import { example, exampleHost } from "../../../fixtures.ts";

const skip: Rule = { ref: "a", action: "skip", expression: "true", enabled: true, description: "let the office in" };
const liveZone = (plan: string, rules: Partial<Record<PhaseName, readonly Rule[]>> = {}): LiveZone => {
  const phase = (name: PhaseName) => ({ name: "default", description: "", rules: rules[name] ?? [] });
  const phases = { custom: phase("custom"), origin: phase("origin"), config: phase("config") };
  return { id: "z", name: "example.org", plan, phases };
};
const on = (plan: Plan, change: Partial<Settings> = {}): Settings => {
  return { ...example, edge: { ...example.edge, plan }, ...change };
};

test("the delivery rule with every published range fills less than half of Cloudflare's limit", () => {
  const sources = [networks.githubHooks, networks.gitlabHooks, networks.bitbucketHooks].flatMap(({ cidrs }) => cidrs);
  const published = on("pro", { hooks: [example.hooks[0]!, { ...example.hooks[1]!, sources }] });
  for (const settings of [example, published])
    for (const { expression } of Object.values(rulesOf(settings)).flat())
      expect(expression.length).toBeLessThan(4_096 / 2);
});

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
  const lost = { ...skip, actionParameters: { phase: "current" } };
  const live = { ...liveZone("free", { custom: [lost] }), botFightMode: true };
  expect(edgeFaults(on("pro"), live)).toHaveLength(3);
  expect(edgeFaults(free, live)).toHaveLength(2);
  const absent = on("pro", { hosts: [{ ...exampleHost, state: "absent" }] });
  expect(edgeFaults(absent, { ...liveZone("free"), botFightMode: true })).toEqual([]);
});

test.each<[Rule["actionParameters"], lost?: string]>([
  [{ phase: "current" }, "phase"],
  [{ phase: "current", ruleset: "current", phases: ["http_ratelimit"], later: true }, "phase, later"],
  [{ ruleset: "current", phases: ["http_ratelimit"], products: ["bic"], rules: { a: ["b"] } }],
  [{ response: { statusCode: 404, content: "no", contentType: "text/plain" } }],
  [{ hostHeader: "a.example.org", origin: { port: 1 }, sni: { value: "a" } }],
  [undefined],
])("preview rejects a rule of the zone's own with %j if the provider would drop %s of it", (actionParameters, lost) => {
  const rule = { ...skip, ...(actionParameters && { actionParameters }) };
  expect(edgeFaults(example, liveZone("pro", { origin: [rule] }))).toEqual(
    lost === undefined
      ? []
      : [
          `origin rules: the zone's own rule "let the office in" (skip) would lose ${lost}, which the Pulumi provider does ` +
            "not know. Write the rule without, such as with ruleset in place of phase.",
        ],
  );
});
