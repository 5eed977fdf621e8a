/** The lines that name what differs at Cloudflare: rule, property, before and after. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, expect, test, vi } from "vitest";
import type { Settings } from "../../../../infra/config/settings.ts";
import { driftIn } from "../../../../infra/contract.ts";
import { phaseDrift, reportDrift } from "../../../../infra/edge/zone/drift.ts";
import { rulesOf } from "../../../../infra/edge/zone/fits.ts";
import type { LiveZone } from "../../../../infra/edge/zone/live-zone.ts";
import { merged, type PhaseName, type Rule } from "../../../../infra/edge/zone/phase.ts";
import { example, exampleHost } from "../../../fixtures.ts";

const rule = (ref: string, change: Partial<Rule> = {}): Rule => ({
  ...{ ref: `pushgate_${ref}`, action: "block", expression: "ssl", enabled: true, description: "" },
  ...change,
});
const own: Rule = rule("", { ref: "own", description: "the zone's own" });
const [a, b] = [rule("a"), rule("b")];

test.each<[live: string, Rule[], lines: string[], phase?: PhaseName]>([
  ["as declared", [a, b], []],
  ["with a rule of the zone's own after them", [a, b, own], []],
  ["with a rule of the zone's own before them", [own, a, b], [], "origin"],
  ["without what the provider fills in", [{ ref: a.ref, action: "block", expression: "ssl" } as Rule, b], []],
  // Where it is not declared, the provider keeps it.
  ["with logging", [{ ...a, logging: { enabled: true } }, b], []],
  ["disabled", [{ ...a, enabled: false }, b], ["pushgate_a: enabled is false, declared true"]],
  [
    "edited twice",
    [{ ...a, action: "managed_challenge", description: "x" }, b],
    ['pushgate_a: description is "x", declared ""', 'pushgate_a: action is "managed_challenge", declared "block"'],
  ],
  [
    "with a response of its own",
    [{ ...a, actionParameters: { response: 1 } }, b],
    ['pushgate_a: actionParameters is {"response":1}, declared nothing'],
  ],
  ["missing", [b], ["pushgate_a: is missing"]],
  ["one too many", [a, b, rule("c")], ["pushgate_c: is not declared any more"]],
  ["swapped", [b, a], ["the order is pushgate_b, pushgate_a, declared pushgate_a, pushgate_b"]],
  [
    "behind one of the zone's own",
    [own, a, b],
    ["the order is own, pushgate_a, pushgate_b, declared pushgate_a, pushgate_b, own"],
  ],
])("one line for each difference of rules that are %s", (_, live, lines, phase = "custom") => {
  expect(phaseDrift(phase, live, [a, b]).map(({ text }) => text)).toEqual(lines.map((line) => `custom rules: ${line}`));
});

test.each<[difference: number, length: number, shows: string]>([
  [78, 78, `"${"a".repeat(77)}b"`],
  [79, 79, `…${"a".repeat(20)}b"`],
  [1, 99, `"b${"a".repeat(78)}…`],
  [40, 98, `…${"a".repeat(20)}b${"a".repeat(58)}"`],
  [40, 99, `…${"a".repeat(20)}b${"a".repeat(59)}…`],
])("a line shows at most 80 characters of a value: of character %i of %i, in quotes", (difference, length, shows) => {
  const declared = "a".repeat(length);
  const live = `${declared.slice(0, difference - 1)}b${declared.slice(difference)}`;
  const [drift] = phaseDrift("custom", [rule("a", { expression: live })], [rule("a", { expression: declared })]);
  const says = `custom rules: pushgate_a: expression is ${shows}, declared ${shows.replace("b", "a")}`;
  expect(drift?.text).toBe(says);
});

afterEach(() => vi.restoreAllMocks());
const free: Settings = { ...example, edge: { ...example.edge, plan: "free", botFightMode: "off" } };
const lines = (settings: Settings, live: Partial<Record<PhaseName, Rule[]>>, botFightMode = false) => {
  const info = vi.spyOn(pulumi.log, "info").mockResolvedValue(undefined);
  const phase = (name: PhaseName) => ({ name: "default", description: "", rules: live[name] ?? [] });
  const phases = { custom: phase("custom"), origin: phase("origin"), config: phase("config") };
  reportDrift(settings, { id: "z", name: "example.org", plan: "free", botFightMode, phases } satisfies LiveZone);
  return info.mock.calls.map(([text]) => text);
};
const declared = rulesOf(free);
test("a run prints nothing for a zone that is as declared, or has no rule of pushgate's yet, nor for a removal", () => {
  expect(lines({ ...free, hosts: [{ ...exampleHost, state: "absent" }] }, declared, true)).toEqual([]);
  expect(lines(free, declared)).toEqual([]);
  expect(lines(free, { custom: merged("custom", [], [own]) }, true)).toEqual([]);
});
test("a run prints a line for each difference, also of a phase whose only rule is gone and of Bot Fight Mode, and hands those of rules to an audit", () => {
  const debug = vi.spyOn(pulumi.log, "debug").mockResolvedValue(undefined);
  const custom = [{ ...declared.custom[0]!, enabled: false }, declared.custom[1]!, a];
  expect(lines(free, { custom, origin: [...declared.origin, own] }, true)).toEqual([
    "custom rules: pushgate_delivery: enabled is false, declared true",
    "custom rules: pushgate_a: is not declared any more",
    "origin rules: the order is pushgate_origin_8443, own, declared own, pushgate_origin_8443",
    "configuration rules: pushgate_strict_tls: is missing",
    "Bot Fight Mode: is on, declared off",
  ]);
  expect(debug.mock.calls.map(([text]) => driftIn(text))).toMatchObject([
    { layer: "custom rules", item: "pushgate_delivery: enabled", kind: "property", before: false, after: true },
    { layer: "custom rules", item: "pushgate_a", kind: "undeclared", before: a, after: null },
    { layer: "origin rules", item: "order", kind: "order", after: ["own", "pushgate_origin_8443"] },
    { layer: "configuration rules", item: "pushgate_strict_tls", kind: "missing", before: null },
  ]);
});
