/** A traced delivery as a person reads it: the path layer by layer, the evidence, the fix, and what was not looked at. */
import { admission } from "../../trace/causes.ts";
import type { SecurityEvent } from "../../trace/evidence.ts";
import type { HostState } from "../../trace/host-state.ts";
import { pathLayers } from "../../trace/outcomes.ts";
import { ruleText, type Verdict } from "../../trace/verdict.ts";
import type { Traced } from "./hosts.ts";

/** 0 delivered, 1 rejected and named, 3 unknown: 2 is a wrong command line. */
export const exitOf = ({ certainty, outcomes }: Verdict): number => {
  if (certainty === "unknown") return 3;
  return outcomes.every(({ layer }) => layer === "delivered") ? 0 : 1;
};

const reached = ({ outcomes: [first] }: Verdict): number =>
  first === undefined || first.layer === "delivered" ? pathLayers.length : pathLayers.indexOf(first.layer);

/** More outcomes than these are printed without a fix each: what would rule them out is the next step. */
const mostFixes = 5;

const eventText = (event: SecurityEvent): string => `${event.action} by ${event.source}, ${ruleText(event)}`;

/** An outcome with what may have caused it; a cause has a fix of its own, which then is printed alone. */
function outcomeLines(
  { certainty, causes, outcomes }: Verdict,
  { name, what, fix }: Verdict["outcomes"][number],
): string[] {
  const own = causes.filter(({ outcome }) => outcome === name);
  const because = own.map(({ host, layer, what }) => `  likely, as ${host} is now: ${layer}: ${what}`);
  const usual = fix === undefined || outcomes.length > mostFixes ? [] : [fix];
  const fixes = own.length > 0 ? own.map(({ fix }) => fix) : usual;
  return [`${certainty}: ${what}.`, ...because, ...[...new Set(fixes)].map((one) => `  fix: ${one}`)];
}

/** A line for each source on one host; "now", as the delivery came earlier. */
function stateLines(traced: Traced, state: HostState): (readonly [source: string, what: string])[] {
  const { host, unreachable, guard, guardLines, differences, drops, counters, kernelLines } = state;
  if (unreachable !== undefined) return [[`${host} now`, unreachable]];
  const admitted = admission(traced, state);
  const yes = (is: boolean) => (is ? "in" : "not in");
  const count = Object.entries(counters).map(([name, packets]) => `${name} ${packets}`);
  return [
    [`${host}'s guard now`, guard],
    ...guardLines.slice(-3).map(({ time, text }) => ["", `${time} ${text}`] as const),
    [`${host}'s layers now`, differences.length === 0 ? "as declared" : `${differences.length} differ`],
    ...differences.slice(0, 8).map(({ layer, text }) => ["", `${layer}: ${text}`] as const),
    [`${host}'s packets`, count.join(", ") || "no table of pushgate"],
    ...[...drops, ...kernelLines].map((line) => ["", line] as const),
    ...(admitted === undefined
      ? []
      : [
          [
            admitted.unit,
            `${admitted.client} is ${yes(admitted.installed)} the installed allowlist, ${yes(admitted.declared)} this release's`,
          ] as const,
        ]),
  ];
}

export function traceText(traced: Traced, found: Verdict): string {
  const { host, time, answer, cloudflare, notLooked, nginx, receiver, published, state = [] } = traced;
  const { certainty, outcomes } = found;
  const at = reached(found);
  const path = pathLayers.map((layer, i) => {
    if (i === 0 && at > 0) return [layer, "sent it"];
    if (certainty === "unknown") return [layer, outcomes.length > 0 && i < at ? "passed" : "unknown"];
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
    ...(state.length === 0
      ? [["the host's layers", undefined] as const]
      : state.flatMap((one) => stateLines(traced, one))),
  ] as const;
  const lines = [
    [host, time].filter((one) => one !== undefined).join(", "),
    ...path.map(([layer = "", what = ""]) => `  ${layer.padEnd(24)}${what}`),
    ...(outcomes.length === 0 ? ["no outcome that pushgate knows fits what was seen"] : []),
    ...outcomes.flatMap((outcome) => outcomeLines(found, outcome)),
    ...(published === undefined || exitOf(found) !== 0 ? [] : [published]),
    "seen:",
    ...seen.map(([source, what]) => `  ${`${source} `.padEnd(24)}${what ?? "not looked at"}`),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}
