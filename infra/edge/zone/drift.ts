/** What differs at Cloudflare: rule, property, before and after. A preview of a ruleset lists positions instead. */
import { isDeepStrictEqual } from "node:util";
import * as pulumi from "@pulumi/pulumi";
import { printable } from "../../../service/printable.ts";
import { hookHostnames } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { type DriftItem, driftMessage } from "../../contract.ts";
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

function ruleDrift(live: Rule | undefined, ours: Rule): DriftItem[] {
  const item = ours.ref;
  if (live === undefined) return [{ item, kind: "missing", before: null, after: ours, text: `${item}: is missing` }];
  const is: Record<string, unknown> = { ...defaults, ...live };
  return Object.entries({ ...defaults, ...ours })
    .filter(([key, wanted]) => !isDeepStrictEqual(is[key], wanted))
    .map(([key, wanted]) => ({
      ...{ item: `${item}: ${key}`, kind: "property", before: is[key] ?? null, after: wanted ?? null },
      text: `${item}: ${key} is ${shortened(is[key], wanted)}, declared ${shortened(wanted, is[key])}`,
    }));
}

export function phaseDrift(phase: PhaseName, live: readonly Rule[], ours: readonly Rule[]): DriftItem[] {
  const refs = (rules: readonly Rule[]): string[] => rules.map(({ ref }) => ref);
  const [is, wanted] = [refs(live), refs(merged(phase, ours, live))];
  const moved = isDeepStrictEqual(is.toSorted(), wanted.toSorted()) && !isDeepStrictEqual(is, wanted);
  const order = `the order is ${is.join(", ")}, declared ${wanted.join(", ")}`;
  const liveOf = ({ ref }: Rule): Rule | undefined => live.findLast((rule) => rule.ref === ref);
  return [
    ...ours.flatMap((rule) => ruleDrift(liveOf(rule), rule)),
    ...live
      .filter((rule) => isOurs(rule) && !wanted.includes(rule.ref))
      .map((rule) => ({
        ...{ item: rule.ref, kind: "undeclared", before: rule, after: null },
        text: `${rule.ref}: is not declared any more`,
      })),
    ...(moved ? [{ item: "order", kind: "order", before: is, after: wanted, text: order }] : []),
  ].map(({ text, ...drift }) => ({ ...drift, text: printable(`${phases[phase].name}: ${text}`) }));
}

/** Prints each difference; a change of the configuration is one, too. Nothing before the first `up` and for a removal. */
export function reportDrift(settings: Settings, { phases: live, botFightMode }: LiveZone): void {
  const isFirst = !phaseNames.some((name) => live[name].rules.some(isOurs));
  if (isFirst || hookHostnames(settings).length === 0) return;
  const ours = rulesOf(settings);
  for (const name of phaseNames)
    for (const { text, ...item } of phaseDrift(name, live[name].rules, ours[name])) {
      void pulumi.log.info(text);
      void pulumi.log.debug(driftMessage({ host: null, layer: phases[name].name, ...item }));
    }
  if (botFightMode === true) void pulumi.log.info("Bot Fight Mode: is on, declared off");
}
