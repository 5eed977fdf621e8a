/** Traced deliveries as a person reads them: one with its path, the evidence and the fix, or several by their verdict. */
import { printable } from "../../../service/printable.ts";
import type { Evidence, HostState } from "../../trace/evidence.ts";
import { pathLayers } from "../../trace/outcomes.ts";
import { ruleText, type Traced, type Verdict } from "../../trace/verdict.ts";

/** 0 delivered, 1 rejected and named, 3 unknown: 2 is a wrong command line. */
export const exitOf = ({ certainty, outcomes }: Verdict): number => {
  if (certainty === "unknown") return 3;
  return outcomes.every(({ layer }) => layer === "delivered") ? 0 : 1;
};

/** An outcome with what may have caused it; a cause has a fix of its own, which then is printed alone. */
function outcomeLines({ certainty, causes, outcomes }: Verdict): string[] {
  if (outcomes.length === 0) return ["no outcome that pushgate knows fits what was seen"];
  return outcomes.flatMap(({ name, what, fix }) => {
    const own = causes.filter(({ outcome }) => outcome === name);
    const because = own.map(({ host, layer, what }) => `  likely, as ${host} is now: ${layer}: ${what}`);
    // Of more than five, what would rule them out is the next step.
    const usual = fix === undefined || outcomes.length > 5 ? [] : [fix];
    const fixes = new Set(own.length > 0 ? own.map(({ fix }) => fix) : usual);
    return [`${certainty}: ${what}.`, ...because, ...[...fixes].map((one) => `  fix: ${one}`)];
  });
}

function pathLines({ certainty, outcomes }: Verdict): string[] {
  const [first] = outcomes;
  const at = first === undefined || first.layer === "delivered" ? pathLayers.length : pathLayers.indexOf(first.layer);
  const became = (i: number): string => {
    if (i === 0 && at > 0) return "sent it";
    if (certainty === "unknown") return outcomes.length > 0 && i < at ? "passed" : "unknown";
    if (i === at) return `${certainty === "likely" ? "probably " : ""}rejected it`;
    return i < at ? "passed" : "not reached";
  };
  return pathLayers.map((layer, i) => `  ${layer.padEnd(24)}${became(i)}`);
}

type Seen = readonly [source: string, what: string][];
const linesOf = (source: string, lines: readonly string[]): Seen =>
  lines.map((line, i) => [i === 0 ? source : "", line] as const);

/** What one host reports; "now", as the delivery came earlier. */
function stateLines({ host, unreachable, findings, differences, drops }: HostState): Seen {
  if (unreachable !== undefined) return [[`${host} now`, unreachable]];
  const newest = findings.slice(-4).reverse();
  const guard = newest.map(({ time, what, fix }) => `${what}${fix && `; fix: ${fix}`}, since ${time}`);
  const differ = differences.slice(0, 8).map(({ layer, what }) => `${layer}: ${what}`);
  const layers = differ.length === 0 ? ["as declared"] : [`${differences.length} differ`, ...differ];
  return [
    ...linesOf(`${host}'s guard now`, guard.length === 0 ? ["the guard has not run"] : guard),
    ...linesOf(`${host}'s layers now`, layers),
    ...linesOf(`${host}'s other tables`, drops),
  ];
}

function seenLines({ answer, cloudflare, notLooked, nginx, receiver, state = [] }: Evidence): Seen {
  const not = "not looked at";
  const log = (line: Evidence["nginx"] | Evidence["receiver"]): string =>
    line === undefined ? not : line === "none" ? "no line" : JSON.stringify(line);
  const events =
    cloudflare?.map((event) => `${event.action} by ${event.source}, ${ruleText(event)}`).join("; ") ||
    "none found; they are sampled";
  return [
    ["the git host's page", answer === undefined ? not : `${answer.status} ${JSON.stringify(answer.headers)}`],
    ["Cloudflare's events", cloudflare === undefined ? `${not}: ${notLooked}` : events],
    ["nginx", log(nginx)],
    ["receiver", log(receiver)],
    ...(state.length === 0 ? linesOf("the host's layers", [not]) : state.flatMap(stateLines)),
  ];
}

export function traceText(traced: Traced): string {
  const { host, time } = traced;
  const lines = [
    [host, time].filter((one) => one !== undefined).join(", "),
    ...pathLines(traced),
    ...outcomeLines(traced),
    "seen:",
    ...seenLines(traced).map(([source, what]) => `  ${`${source} `.padEnd(24)}${what}`),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}

export const lineOf = ({ time, hook, host, kind, delivery, answer }: Traced): string => {
  const where = [time ?? "unknown time", `${hook} on ${host}`, kind, delivery, answer?.status || "no answer"];
  return printable(where.join("  "));
};

export const countOf = (count: number): string => (count === 1 ? "one delivery" : `${count} deliveries`);

export function groupsText(found: readonly Traced[], what: string): string {
  const groups = Map.groupBy(found, (one) => outcomeLines(one).join("\n"));
  const texts = [...groups].map(([lines, group]) => {
    const { certainty, outcomes } = group[0]!;
    const layer = outcomes[0]?.layer;
    const rejected = layer === "delivered" ? layer : `rejected by ${layer}`;
    const all = [...lines.split("\n"), ...group.map(lineOf)].map((line) => `\n  ${line}`);
    return `\n\n${certainty === "unknown" ? certainty : rejected}: ${countOf(group.length)}${all.join("")}`;
  });
  return `${what}${texts.length === 0 ? "" : ":"}${texts.join("")}`;
}
