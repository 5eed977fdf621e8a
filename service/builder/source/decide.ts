/** Decides whether to build, which commit, and why. Builds where the changes are unknown. */
import { posix } from "node:path";
import { isUnder } from "../files.ts";
import { listed } from "../run/setback.ts";
import type { Changes } from "./repository.ts";

/** A star stands for any characters of a name; a bracket or a brace is itself. */
const expressionOf = (pattern: string): string =>
  (pattern.split("/").filter(Boolean).join("/") || "*").replace(/[\\^$.+?()[\]{}|]/g, "\\$&").replace(/\*+/g, "[^/]*");

/** The paths that match a pattern: `static` and `static/` match all below, `deploy*` matches deploy.sh and deploy/run. */
export function relevant(paths: readonly string[], patterns: readonly string[]): string[] {
  const matching = new RegExp(`^(?:${patterns.map(expressionOf).join("|")})(?:/|$)`);
  return patterns.length === 0 ? [] : paths.filter((path) => matching.test(path));
}

export type Known = {
  readonly head: string;
  readonly deployed: { readonly release: string; readonly commit: string } | null;
  /** The head from which a rollback went back. */
  readonly held: string | null;
  readonly requested: boolean;
  readonly scheduled: boolean;
  readonly moved: string | undefined;
  /** Paths in which the published release differs from what was built. */
  readonly tampered: readonly string[];
};

export type Plan = {
  readonly commit: string | null;
  readonly reason: string;
  /** A build that is the same as what is published is no release. */
  readonly unlessSame?: boolean;
};

const short = (commit: string): string => commit.slice(0, 12);

/** What can be decided without the repository; undefined where the changed paths decide. */
export function plan({ head, deployed, held, requested, scheduled, moved, tampered }: Known): Plan | undefined {
  if (!deployed) return { commit: head, reason: "the first release" };
  const holding = held === head;
  // During a rollback, the commit that it chose is built.
  const commit = holding ? deployed.commit : head;
  if (tampered.length > 0)
    return { commit, reason: `the release ${deployed.release} was changed on the disk: ${listed(tampered)}` };
  if (requested) return { commit, reason: "requested" };
  // No schedule builds with the settings from which a rollback went back.
  if (scheduled && !(holding && moved !== undefined))
    return { commit, reason: "scheduled", unlessSame: commit === deployed.commit };
  const from = deployed.commit === head ? "the current settings" : short(head);
  const back = `rolled back to ${deployed.release}, away from ${from}: a new commit is published again`;
  if (holding) return { commit: null, reason: back };
  if (moved !== undefined) return { commit: head, reason: moved };
  if (deployed.commit === head) return { commit: null, reason: `the head ${short(head)} is published already` };
  return undefined;
}

/** `read`: the folders and files that the published release was built from. */
export function planBy(changes: Changes, patterns: readonly string[], head: string, read: readonly string[] = [""]) {
  if ("unknown" in changes) return { commit: head, reason: changes.unknown };
  // A folder's name may have any character, a pattern only some. A submodule is one path, and a folder may be in it.
  const isRead = (path: string) => read.some((at) => at === "" || isUnder(path, at) || isUnder(at, path));
  const matched = new Set(relevant(changes.paths, patterns));
  // The generator lists no mount whose folder is missing, and a new folder may be that one.
  const isInNew = (path: string) => !changes.folders.has(posix.dirname(path));
  const building = changes.paths.filter((path) => matched.has(path) || isRead(path) || isInNew(path));
  if (building.length > 0) return { commit: head, reason: `changed: ${listed(building)}` };
  if (changes.paths.length === 0) return { commit: null, reason: `${short(head)} changes no file` };
  const reason = `${short(head)} changes only ${listed(changes.paths)}: nothing that the site is built from`;
  return { commit: null, reason };
}
