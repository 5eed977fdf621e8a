/**
 * Whether a layer is on the host as declared, and the stamp of its apply (decision 002). A removed layer leaves
 * `absent-<stamp>`, which a host restored from a backup does not have; one that never came gives the constant `absent`.
 */
import { randomUUID } from "node:crypto";
import { structuredPatch } from "diff";
import { printable, printableLines } from "../../service/printable.ts";
import type { DriftItem } from "../contract.ts";
import type { HostFact, HostFile, HostLayer } from "./layer.ts";
import { factLine, fileLine, plainMode, sha256 } from "./manifest.ts";
import { type SeenFact, type SeenFile, type SeenLayer, trimmed } from "./report.ts";
import { readStamp, sealed, version } from "./version.ts";

export type Reconciled = {
  readonly stamp: string;
  readonly inSync: boolean;
  /** Manual changes on the host since the last apply. */
  readonly drift: readonly DriftItem[];
};

const isValid = (layer: string, stamp = ""): boolean =>
  readStamp(stamp)?.isTombstone === false && stamp === sealed(layer, stamp.slice(0, -4));

/** The host has neither a file nor a stamp of the layer: there is nothing to remove. */
export const neverCame = ({ stamp, owned }: SeenLayer): boolean => stamp === undefined && owned.length === 0;

/** Of all that reconcile compares, so that any difference gives another stamp. `old` is the old stamp or a random value. */
function newStamp(layer: HostLayer, { stamp, files, owned, facts }: SeenLayer, old: string): string {
  const found = layer.files.map(({ path }) => {
    const { type, mode, owner, sha256 } = files[path] ?? {};
    return [path, type, mode, owner, sha256];
  });
  const hash = sha256(JSON.stringify([layer, stamp, found, [...owned].sort(), facts, old])).slice(0, 8);
  return sealed(layer.name, `${version}-${hash}`);
}

export function reconcile(layer: HostLayer, seen: SeenLayer, random: () => string = randomUUID): Reconciled {
  if (layer.present === false) return leaving(layer, seen, random);
  const old = isValid(layer.name, seen.stamp) ? seen.stamp : undefined;
  const faults = differences(layer, seen);
  if (old !== undefined && faults.length === 0) return { stamp: old, inSync: true, drift: [] };
  const drift = manualChanges(layer, seen, old !== undefined, faults);
  return { stamp: newStamp(layer, seen, old ?? random()), inSync: false, drift };
}

function leaving(layer: HostLayer, seen: SeenLayer, random: () => string): Reconciled {
  const tombstone = readStamp(seen.stamp)?.isTombstone === true;
  if (neverCame(seen) || (tombstone && seen.owned.length === 0))
    return { stamp: seen.stamp ?? "absent", inSync: true, drift: [] };
  const old = tombstone || isValid(layer.name, seen.stamp) ? seen.stamp! : random();
  const back = (path: string): DriftItem => {
    const stray = strayAt(path);
    return { ...changeOf(stray), text: `${stray.item} is back, though the layer was removed` };
  };
  const drift = tombstone ? seen.owned.map(back) : [];
  return { stamp: `absent-${newStamp(layer, seen, old)}`, inSync: false, drift };
}

export type Difference = {
  readonly of: string; // the line (manifest.ts) of a declared file or fact, or the path of a stray
  readonly item: string; // a path, or the name of a fact
  readonly kind: "contents" | "fact" | "missing" | "mode" | "type" | "undeclared";
  readonly before: string | null; // on the host
  readonly after: string | null; // declared
  readonly what: string;
  readonly diff?: string; // of two texts, with - for the host and + for the declaration
  readonly path?: string; // of a file or a stray
  readonly about?: string; // of a fact
};

/** What is not as declared, manual changes and those that the program is about to make: files, strays, facts. */
export const differences = (layer: HostLayer, seen: SeenLayer): Difference[] => [
  ...layer.files.flatMap((file) =>
    fileFaults(file, seen.files[file.path]).map((fault) => {
      const { path } = file;
      return { ...fault, of: fileLine(file), item: path, path };
    }),
  ),
  ...strays(layer, seen).map(strayAt),
  ...layer.facts.flatMap((fact, index) => {
    const { name, about } = fact;
    const fault = factFault(fact, seen.facts[index]);
    const known = { of: factLine(layer.script, fact), item: name, ...(about !== undefined && { about }) };
    return fault === undefined ? [] : [{ ...known, ...fault, what: `${name}: ${fault.what}` }];
  }),
];

function strayAt(path: string): Difference {
  const item = printable(path);
  return {
    ...{ of: path, path, item, kind: "undeclared", before: "exists", after: null },
    what: `${item} is not declared and will be removed`,
  };
}

/** A folder on the way to a declared file is none. */
function strays({ files }: HostLayer, { owned }: SeenLayer): string[] {
  const ways = files.flatMap(({ path }) => path.split("/").map((_, i, all) => all.slice(0, i + 1).join("/")));
  const declared = new Set(ways);
  return [...new Set(owned)].filter((path) => !declared.has(path));
}

type Fault = Pick<Difference, "what" | "diff" | "kind" | "before" | "after">;

function fileFaults({ path, text, mode, owner }: HostFile, seen: SeenFile | undefined): Fault[] {
  if (seen === undefined) return [{ kind: "missing", before: null, after: text, what: `${path} is missing` }];
  const type = printable(seen.type);
  if (!type.startsWith("regular"))
    return [{ kind: "type", before: type, after: "regular file", what: `${path} is a ${type}, not a file` }];
  const [before, after] = [printable(`${seen.mode} ${seen.owner}`), `${plainMode(mode)} ${owner}`];
  const what = `${path} is ${before}, declared is ${after}`;
  const faults: Fault[] = before === after ? [] : [{ kind: "mode", before, after, what }];
  if (seen.sha256 === sha256(text)) return faults;
  const contents = { kind: "contents", after: text, what: `${path} has other contents` } as const;
  if (seen.text === undefined)
    return [...faults, { ...contents, before: null, what: `${contents.what}, too long or not readable to show` }];
  return [...faults, { ...contents, before: seen.text, diff: unified(seen.text, text) }];
}

export const unread = "no answer: the shell that reads this layer's facts ended early, or took 30 seconds";

function factFault(fact: HostFact, seen: SeenFact | undefined): Fault | undefined {
  const after = trimmed(fact.want);
  if (seen === undefined) return { kind: "fact", before: null, after, what: unread };
  if (seen.output === after) return undefined;
  const before = printableLines(seen.output);
  const known = { kind: "fact", before, after } as const;
  if (after.includes("\n") || before.includes("\n")) return { ...known, what: "differs", diff: unified(before, after) };
  const exit = seen.status === 0 ? "" : ` (exit ${seen.status})`;
  return { ...known, what: `declared is "${after}", the host reports "${before}"${exit}` };
}

/** Those of which the installed list has the declared line, and strays that it lacks; without a valid stamp, all. */
function manualChanges(layer: HostLayer, seen: SeenLayer, valid: boolean, faults: readonly Difference[]) {
  const untouched = seen.stamp === undefined && layer.files.every(({ path }) => seen.files[path] === undefined);
  if (untouched) return [];
  const manual = ({ of }: Difference) =>
    of.startsWith("/") ? !seen.applied.some((line) => line.endsWith(` ${of}`)) : seen.applied.includes(of);
  const none = seen.stamp === undefined;
  const stamp: DriftItem = {
    ...{ item: "stamp", kind: "stamp", before: none ? null : printable(seen.stamp), after: null },
    text: none ? "no stamp: the last apply did not finish" : "the stamp on the host is not valid",
  };
  return [...(valid ? [] : [stamp]), ...faults.filter((fault) => !valid || manual(fault)).map(changeOf)];
}

const changeOf = ({ item, kind, before, after, what, diff }: Difference): DriftItem => ({
  ...{ item, kind, before, after },
  text: diff === undefined ? what : `${what} (- on the host, + declared):\n${diff}`,
});

const longest = 40; // lines of a preview
/** Beyond 1000 changed lines the whole text counts as replaced: at most 0.1 s for two texts of 64 KiB. */
const options = { context: 2, maxEditLength: 1_000 };

export function unified(from: string, to: string): string {
  const patch = structuredPatch("", "", `${from}\n`, `${to}\n`, "", "", options);
  const marked = (mark: string, text: string) => text.split("\n").map((line) => mark + line);
  const hunks = patch?.hunks ?? [{ lines: [...marked("-", from), ...marked("+", to)] }];
  const shown = hunks.flatMap(({ lines }, at) => [...(at === 0 ? [] : [" …"]), ...lines]);
  const more = shown.length - longest;
  const first = shown.slice(0, longest).map((line) => `${line[0]} ${printableLines(line.slice(1, 201))}`.trimEnd());
  return [...first, ...(more > 0 ? [`  … ${more} more lines`] : [])].join("\n");
}
