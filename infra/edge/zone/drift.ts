/**
 * What differs at Cloudflare, in words: rule, property, before and after. The preview of a ruleset lists positions in a
 * list, and outputs that every write changes; which rule was switched off is lost in that.
 */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import { hookHostnames } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { rulesOf } from "./fits.ts";
import type { LiveZone } from "./live-zone.ts";
import { isOurs, merged, type PhaseName, phaseNames, phases, type Rule } from "./phase.ts";

/** What the provider compares for a rule that leaves it out. It keeps any other property that a rule does not declare. */
const defaults: Readonly<Record<string, unknown>> = { enabled: true, description: "", actionParameters: undefined };

/** An expression holds every source range: only what differs is shown, with some characters around it. */
function shortened(value: unknown, other: unknown): string {
  const [text = "nothing", beside = "nothing"] = [value, other].map((one) => JSON.stringify(one));
  if (text.length <= 80) return text;
  let same = 0;
  while (same < text.length && text[same] === beside[same]) same++;
  const from = Math.max(0, same - 20);
  return `${from > 0 ? "…" : ""}${text.slice(from, from + 80)}${from + 80 < text.length ? "…" : ""}`;
}

function ruleDrift(live: Rule, ours: Rule): string[] {
  const [is, wanted] = [live, ours].map((rule) => ({ ...defaults, ...rule }) as Record<string, unknown>);
  return Object.keys(wanted!)
    .filter((key) => !isDeepStrictEqual(is![key], wanted![key]))
    .map(
      (key) =>
        `${ours.ref}: ${key} is ${shortened(is![key], wanted![key])}, declared ${shortened(wanted![key], is![key])}`,
    );
}

/** Of one phase: the live rules against those that pushgate declares. */
export function phaseDrift(phase: PhaseName, live: readonly Rule[], ours: readonly Rule[]): string[] {
  const found = new Map(live.map((rule) => [rule.ref, rule]));
  const surplus = live.filter((rule) => isOurs(rule) && !ours.some(({ ref }) => ref === rule.ref));
  const differing = ours.flatMap((rule) => {
    const now = found.get(rule.ref);
    return now === undefined ? [`${rule.ref}: is missing`] : ruleDrift(now, rule);
  });
  const refs = (rules: readonly Rule[]) => rules.map(({ ref }) => ref);
  const [is, wanted] = [refs(live), refs(merged(phase, ours, live))];
  const moved = isDeepStrictEqual(is.toSorted(), wanted.toSorted()) && !isDeepStrictEqual(is, wanted);
  return [
    ...differing,
    ...surplus.map(({ ref }) => `${ref}: is not declared any more`),
    ...(moved ? [`the order is ${is.join(", ")}, declared ${wanted.join(", ")}`] : []),
  ].map((text) => `${phases[phase].name}: ${text}`);
}

/** Prints each difference; a change of the configuration is one, too. Nothing before the first `up` and for a removal. */
export function reportDrift(settings: Settings, live: LiveZone): void {
  const first = !phaseNames.some((name) => live.phases[name].rules.some(isOurs));
  if (first || hookHostnames(settings).length === 0) return;
  const ours = rulesOf(settings);
  const ofRules = phaseNames.flatMap((name) => phaseDrift(name, live.phases[name].rules, ours[name]));
  const ofBots = live.botFightMode === true ? ["Bot Fight Mode: is on, declared off"] : [];
  for (const text of [...ofRules, ...ofBots]) void pulumi.log.info(text);
}
