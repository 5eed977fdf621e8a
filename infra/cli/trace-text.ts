/** A traced delivery as a person reads it: the path layer by layer, the evidence, the fix, and what was not looked at. */
import type { SecurityEvent } from "../trace/evidence.ts";
import { layers } from "../trace/outcomes.ts";
import { ruleText, type Verdict } from "../trace/verdict.ts";
import type { Traced } from "./trace-hosts.ts";

/** 0 delivered, 1 rejected and named, 2 unknown. */
export const exitOf = ({ certainty, outcomes }: Verdict): number => {
  if (certainty === "unknown") return 2;
  return outcomes.every(({ layer }) => layer === "delivered") ? 0 : 1;
};

const reached = ({ outcomes: [first] }: Verdict): number =>
  first === undefined || first.layer === "delivered" ? layers.length : layers.indexOf(first.layer);

/** More outcomes than these are printed without a fix each: what would rule them out is the next step. */
const fixes = 5;

const eventText = (event: SecurityEvent): string => `${event.action} by ${event.source}, ${ruleText(event)}`;

export function traceText(traced: Traced, found: Verdict): string {
  const { host, time, answer, cloudflare, notLooked, nginx, receiver, published } = traced;
  const { certainty, outcomes } = found;
  const at = reached(found);
  const path = layers.map((layer, i) => {
    if (i === 0 && at > 0) return [layer, "sent it"];
    if (certainty === "unknown") return [layer, i < at ? "passed" : "unknown"];
    if (i === at) return [layer, `${certainty === "likely" ? "probably " : ""}rejected it`];
    return [layer, i < at ? "passed" : "not reached"];
  });
  const seen = [
    ["the git host's page", answer === undefined ? undefined : `${answer.status} ${JSON.stringify(answer.headers)}`],
    [
      "Cloudflare's events",
      cloudflare === undefined
        ? `not looked at: ${notLooked}`
        : cloudflare.map(eventText).join("; ") || "none found; they are sampled",
    ],
    ["nginx", nginx === undefined ? undefined : nginx === "none" ? "no line" : JSON.stringify(nginx)],
    ["receiver", receiver === undefined ? undefined : receiver === "none" ? "no line" : JSON.stringify(receiver)],
  ] as const;
  const lines = [
    [host, time].filter((one) => one !== undefined).join(", "),
    ...path.map(([layer = "", what = ""]) => `  ${layer.padEnd(24)}${what}`),
    ...(outcomes.length === 0 ? ["no outcome that pushgate knows fits what was seen"] : []),
    ...outcomes.flatMap(({ what, fix }) => [
      `${certainty}: ${what}.`,
      ...(fix === undefined || outcomes.length > fixes ? [] : [`  fix: ${fix}`]),
    ]),
    ...(published === undefined || exitOf(found) !== 0 ? [] : [published]),
    "seen:",
    ...seen.map(([source, what]) => `  ${source.padEnd(24)}${what ?? "not looked at"}`),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}
