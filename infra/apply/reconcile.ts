/**
 * The decision: is this layer on the machine as declared, and which stamp does its apply carry? Pure.
 *
 * The stamp is the one input that is read back from the machine. While the machine is as declared, the stamp found
 * there is echoed, the command's input equals the state and preview is empty. Otherwise a new stamp makes the input
 * differ, the engine runs the apply again, and that writes it.
 *
 * A new stamp hashes what is wanted, what was found and the old stamp, so the same drift twice is two stamps. Where the
 * old one is missing or not ours, chance takes its place: without it, a stamp deleted twice would be missed once.
 *
 * A removed layer leaves `absent-<stamp>` behind, by the same rule: it is what tells a machine that stayed clean from
 * one that was restored from a backup. A machine the layer never was on has no stamp, and gives the constant `absent`.
 */
import { randomUUID } from "node:crypto";
import { unified } from "./diff.ts";
import type { HostFact, HostFile, HostLayer } from "./layer.ts";
import { factRecord, fileRecord, plainMode, sha256, strays } from "./manifest.ts";
import { printable, type SeenFact, type SeenFile, type SeenLayer, trimmed } from "./report.ts";

export type Verdict = {
  readonly stamp: string;
  readonly inSync: boolean;
  /** What somebody changed on the machine since the last apply, in a person's words; a diff follows on further lines. */
  readonly drift: readonly string[];
};

const stampShape = /^[0-9a-f]{12}$/;
const tombstoneShape = /^absent-[0-9a-f]{12}$/;

export function reconcile(layer: HostLayer, seen: SeenLayer, chance: () => string = randomUUID): Verdict {
  return layer.present !== false ? arriving(layer, seen, chance) : leaving(layer, seen, chance);
}

/** Nothing of the layer is on the machine, and no sign that it ever was: there is nothing to leave. */
export const neverCame = ({ stamp, owned }: SeenLayer): boolean => stamp === undefined && owned.length === 0;

const hash = (...parts: unknown[]): string => sha256(JSON.stringify(parts)).slice(0, 12);

/** All that reconcile compares, so that any difference gives another stamp. */
const fingerprint = (layer: HostLayer, { stamp, files, owned, facts }: SeenLayer): unknown => [
  stamp,
  layer.files.map(({ path }) => {
    const { type, mode, owner, sha256 } = files[path] ?? {};
    return [path, type, mode, owner, sha256];
  }),
  [...owned].sort(),
  facts,
];

function arriving(layer: HostLayer, seen: SeenLayer, chance: () => string): Verdict {
  const valid = seen.stamp !== undefined && stampShape.test(seen.stamp);
  const faults = [
    ...layer.files.flatMap((file) => fileFaults(file, seen.files[file.path])),
    ...strays(layer.files, seen.owned).map((path) => ({
      of: path,
      says: `${printable(path)} is ours and not declared`,
    })),
    ...layer.facts.flatMap((fact, index) => factFaults(layer.script, fact, seen.facts[index])),
  ];
  const inSync = valid && faults.length === 0;
  const stamp = inSync ? seen.stamp! : hash(layer, fingerprint(layer, seen), valid ? seen.stamp : chance());
  return { stamp, inSync, drift: inSync ? [] : byHand(layer, seen, valid, faults) };
}

function leaving(layer: HostLayer, seen: SeenLayer, chance: () => string): Verdict {
  const tombstone = seen.stamp !== undefined && tombstoneShape.test(seen.stamp);
  if (neverCame(seen) || (tombstone && seen.owned.length === 0))
    return { stamp: seen.stamp ?? "absent", inSync: true, drift: [] };
  const old = tombstone || stampShape.test(seen.stamp ?? "") ? seen.stamp : chance();
  const drift = tombstone ? seen.owned.map((path) => `${printable(path)} is back, though the layer was removed`) : [];
  return { stamp: `absent-${hash(layer, fingerprint(layer, seen), old)}`, inSync: false, drift };
}

/** `of`: the record line the last apply left if it installed just this; of a stray, its path. */
type Difference = { readonly of: string; readonly says: string };

function fileFaults(file: HostFile, seen: SeenFile | undefined): Difference[] {
  const fault = (says: string): Difference[] => [{ of: fileRecord(file), says: `${file.path} ${says}` }];
  if (seen === undefined) return fault("is missing");
  if (!seen.type.startsWith("regular")) return fault(`is a ${printable(seen.type)}, not a file`);
  const wrong: Difference[] = [];
  const mode = plainMode(file.mode);
  if (seen.mode !== mode || seen.owner !== file.owner)
    wrong.push(...fault(`is ${printable(seen.mode)} ${printable(seen.owner)}, declared is ${mode} ${file.owner}`));
  if (seen.sha256 !== sha256(file.text))
    wrong.push(
      ...fault(
        seen.text === undefined
          ? "has other contents, too long or not readable to show"
          : `has other contents (- on the machine, + declared):\n${unified(seen.text, file.text)}`,
      ),
    );
  return wrong;
}

function factFaults(script: string | undefined, fact: HostFact, seen: SeenFact | undefined): Difference[] {
  const fault = (says: string): Difference[] => [{ of: factRecord(script, fact), says: `${fact.name}: ${says}` }];
  if (seen === undefined) return fault("the machine gave no answer");
  if (seen.status === 124 || seen.status === 137) return fault("no answer within 5 seconds");
  const want = trimmed(fact.want);
  if (seen.output === want) return [];
  const found = printable(seen.output);
  if (want.includes("\n") || found.includes("\n"))
    return fault(`differs (- on the machine, + declared):\n${unified(found, want)}`);
  return fault(
    `declared is "${want}", the machine says "${found}"${seen.status === 0 ? "" : ` (exit ${seen.status})`}`,
  );
}

/**
 * Only what a hand did is worth a warning; what the program itself is about to change is what preview is for. The
 * record beside the stamp tells them apart: what the last apply installed is declared still, so somebody else changed it.
 */
function byHand(layer: HostLayer, seen: SeenLayer, valid: boolean, faults: readonly Difference[]): string[] {
  const untouched = seen.stamp === undefined && layer.files.every(({ path }) => seen.files[path] === undefined);
  if (untouched) return [];
  const stamp = valid
    ? []
    : [seen.stamp === undefined ? "no stamp: the last apply did not finish" : "the stamp on the machine is not ours"];
  const ours = ({ of }: Difference) =>
    of.startsWith("/") ? seen.applied.some((line) => line.endsWith(` ${of}`)) : !seen.applied.includes(of);
  return [...stamp, ...faults.filter((fault) => !valid || !ours(fault)).map(({ says }) => says)];
}
