/** A traced delivery as a person reads it: the path layer by layer, the evidence, the fix, and what was not looked at. */
import { layers } from "../trace/outcomes.ts";
import type { Verdict } from "../trace/verdict.ts";
import type { Traced } from "./trace-hosts.ts";

/** 0 delivered, 1 rejected and named, 2 unknown. */
export const exitOf = ({ certainty, outcomes }: Verdict): number => {
  if (certainty === "unknown") return 2;
  return outcomes.every(({ layer }) => layer === "delivered") ? 0 : 1;
};

const reached = ({ outcomes: [first] }: Verdict): number =>
  first === undefined || first.layer === "delivered" ? layers.length : layers.indexOf(first.layer);

export function traceText({ host, time, answer, nginx, receiver, published }: Traced, found: Verdict): string {
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
    ["nginx", nginx === undefined ? undefined : nginx === "none" ? "no line" : JSON.stringify(nginx)],
    ["receiver", receiver === undefined ? undefined : receiver === "none" ? "no line" : JSON.stringify(receiver)],
  ] as const;
  const lines = [
    [host, time].filter((one) => one !== undefined).join(", "),
    ...path.map(([layer = "", what = ""]) => `  ${layer.padEnd(24)}${what}`),
    ...(outcomes.length === 0 ? ["no outcome that pushgate knows fits what was seen"] : []),
    ...outcomes.flatMap(({ what, fix }) => [`${certainty}: ${what}.`, ...(fix === undefined ? [] : [`  fix: ${fix}`])]),
    ...(published === undefined || exitOf(found) !== 0 ? [] : [published]),
    "seen:",
    ...seen.map(([source, what]) => `  ${source.padEnd(24)}${what ?? "not looked at"}`),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}
