/**
 * status.json, for people and for `npm run status`: what is published, what was tried last and why it ended so. It is
 * derived, and read by no decision: what is published is what `current` and its manifest say.
 */
import { readFileSync } from "node:fs";
import { currentRelease } from "./current.ts";
import { ifThere, writeWhole } from "./files.ts";
import { readManifest, releases } from "./manifest.ts";
import type { Places } from "./places.ts";

export type Step = "debounce" | "fetch" | "decide" | "checkout" | "hugo" | "publish";

/** What one run did. */
export type Last = {
  readonly result: "published" | "nothing" | "failed" | "refused" | "rolled back";
  readonly reason: string;
  /** What was built, or would have been. */
  readonly commit: string | null;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Who asked: deliveries, asks, the timer's tick. */
  readonly trigger: readonly string[];
  readonly warnings: string[];
  readonly milliseconds: Readonly<Record<Step | "total", number>>;
};

/** Since when it fails, how often it was tried, and when it is tried again at the latest. */
export type Failing = { readonly since: string; readonly attempts: number; readonly next: string };

/** Files of the folder to be adopted that neither the build makes nor site.keep names. */
export type Adoption = { readonly release: string; readonly files: readonly string[]; readonly more: number };

export type Status = {
  readonly hook: string;
  readonly deployed: { readonly release: string; readonly commit: string | null; readonly at: string } | null;
  readonly head: string | null;
  /** The head a rollback turned away from, while it holds. */
  readonly held?: string;
  readonly last: Last;
  readonly failing?: Failing;
  /** Newest first. */
  readonly releases: readonly {
    readonly id: string;
    readonly commit: string | null;
    readonly at: string;
    readonly pages: number;
    readonly bytes: number;
  }[];
  readonly adoption?: Adoption;
};

export type Told = Pick<Status, "hook" | "head" | "last"> & {
  readonly held: string | null;
  readonly failing: Failing | undefined;
  readonly adoption: Adoption | undefined;
  /** Releases that stay; the others are being removed. */
  readonly stay?: readonly string[];
};

export function writeStatus(places: Places, { hook, head, last, held, failing, adoption, stay }: Told): void {
  const current = currentRelease(places);
  const known = releases(places)
    .filter((id) => !stay || stay.includes(id))
    .flatMap((id) => readManifest(places, id) ?? []);
  const deployed = known.find(({ release }) => release === current);
  const status: Status = {
    hook,
    deployed: deployed ? { release: deployed.release, commit: deployed.commit, at: deployed.at } : null,
    head,
    ...(held !== null && { held }),
    last,
    ...(failing && { failing }),
    releases: known.map(({ release: id, commit, at, pages, bytes }) => ({ id, commit, at, pages, bytes })),
    ...(adoption && { adoption }),
  };
  writeWhole(places.status, `${JSON.stringify(status, null, 2)}\n`);
}

/** What it said last, for what only people ask: since when it fails. undefined where it can't be read. */
export function readStatus(places: Places): Status | undefined {
  try {
    const text = ifThere(() => readFileSync(places.status, "utf8"));
    return text === undefined ? undefined : (JSON.parse(text) as Status);
  } catch {
    return undefined;
  }
}
