/**
 * Whether a layer is on the host as declared, and the stamp of its apply (decision 002). A removed layer leaves
 * `absent-<stamp>`, which a host restored from a backup does not have; one that never came gives the constant `absent`.
 */
import { randomUUID } from "node:crypto";
import { structuredPatch } from "diff";
import { printable, printableLines } from "../../service/printable.ts";
import type { HostFact, HostFile, HostLayer } from "./layer.ts";
import { factLine, fileLine, plainMode, sha256 } from "./manifest.ts";
import { type SeenFact, type SeenFile, type SeenLayer, trimmed } from "./report.ts";
import { readStamp, sealed, version } from "./version.ts";

export type Reconciled = {
  readonly stamp: string;
  readonly inSync: boolean;
  /** Manual changes on the host since the last apply, for a person; a diff follows on further lines. */
  readonly drift: readonly string[];
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
  const drift = tombstone ? seen.owned.map((path) => `${printable(path)} is back, though the layer was removed`) : [];
  return { stamp: `absent-${newStamp(layer, seen, old)}`, inSync: false, drift };
}

export type Difference = {
  readonly of: string; // the line (manifest.ts) of a declared file or fact, or the path of a stray
  readonly what: string;
  readonly diff?: string; // of two texts, with - for the host and + for the declaration
  readonly path?: string; // of a file or a stray
  readonly about?: string; // of a fact
  readonly found?: string; // what the host reports of a fact
};

/** What is not as declared, manual changes and those that the program is about to make: files, strays, facts. */
export const differences = (layer: HostLayer, seen: SeenLayer): Difference[] => [
  ...layer.files.flatMap((file) =>
    fileFaults(file, seen.files[file.path]).map((fault) => ({ ...fault, of: fileLine(file), path: file.path })),
  ),
  ...strays(layer, seen).map((path) => ({
    ...{ of: path, path, what: `${printable(path)} is not declared and will be removed` },
  })),
  ...layer.facts.flatMap((fact, index) => {
    const { name, about } = fact;
    const fault = factFault(fact, seen.facts[index]);
    const known = { of: factLine(layer.script, fact), ...(about !== undefined && { about }) };
    return fault === undefined ? [] : [{ ...known, ...fault, what: `${name}: ${fault.what}` }];
  }),
];

/** A folder on the way to a declared file is none. */
function strays({ files }: HostLayer, { owned }: SeenLayer): string[] {
  const ways = files.flatMap(({ path }) => path.split("/").map((_, i, all) => all.slice(0, i + 1).join("/")));
  const declared = new Set(ways);
  return [...new Set(owned)].filter((path) => !declared.has(path));
}

type Fault = Pick<Difference, "what" | "diff" | "found">;

function fileFaults({ path, text, mode, owner }: HostFile, seen: SeenFile | undefined): Fault[] {
  if (seen === undefined) return [{ what: `${path} is missing` }];
  if (!seen.type.startsWith("regular")) return [{ what: `${path} is a ${printable(seen.type)}, not a file` }];
  const [found, declared] = [`${seen.mode} ${seen.owner}`, `${plainMode(mode)} ${owner}`];
  const faults = found === declared ? [] : [{ what: `${path} is ${printable(found)}, declared is ${declared}` }];
  if (seen.sha256 === sha256(text)) return faults;
  const contents = `${path} has other contents`;
  if (seen.text === undefined) return [...faults, { what: `${contents}, too long or not readable to show` }];
  return [...faults, { what: contents, diff: unified(seen.text, text) }];
}

export const unread = "no answer: the shell that reads this layer's facts ended early, or took 15 seconds";

function factFault(fact: HostFact, seen: SeenFact | undefined): Fault | undefined {
  if (seen === undefined) return { what: unread };
  const want = trimmed(fact.want);
  if (seen.output === want) return undefined;
  const found = printableLines(seen.output);
  if (want.includes("\n") || found.includes("\n")) return { what: "differs", diff: unified(found, want), found };
  const exit = seen.status === 0 ? "" : ` (exit ${seen.status})`;
  return { what: `declared is "${want}", the host reports "${found}"${exit}`, found };
}

/** Those of which the installed list has the declared line, and strays that it lacks; without a valid stamp, all. */
function manualChanges(layer: HostLayer, seen: SeenLayer, valid: boolean, faults: readonly Difference[]): string[] {
  const untouched = seen.stamp === undefined && layer.files.every(({ path }) => seen.files[path] === undefined);
  if (untouched) return [];
  const manual = ({ of }: Difference) =>
    of.startsWith("/") ? !seen.applied.some((line) => line.endsWith(` ${of}`)) : seen.applied.includes(of);
  const texts = faults
    .filter((fault) => !valid || manual(fault))
    .map(({ what, diff }) => (diff === undefined ? what : `${what} (- on the host, + declared):\n${diff}`));
  const none = seen.stamp === undefined;
  return [
    ...(valid ? [] : [none ? "no stamp: the last apply did not finish" : "the stamp on the host is not valid"]),
    ...texts,
  ];
}

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
