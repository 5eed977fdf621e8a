/** The paths of one site. `work` alone is closed to other accounts: its clone may be of a private repository. */
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ifThere, remove, syncFolder, writeWhole } from "./files.ts";
import type { BuilderSettings } from "./settings.ts";

export type Places = ReturnType<typeof placesOf>;

/** `root`: the account whose requests may roll back and adopt; not 0 only in a test that root does not run. */
export function placesOf({ site, spool, asks }: Pick<BuilderSettings, "site" | "spool" | "asks">, root = 0) {
  const work = join(site, "work");
  return {
    root,
    spool,
    requests: asks,
    site,
    /** The link to releases/<id> that the web server follows. */
    current: join(site, "current"),
    releases: join(site, "releases"),
    release: (id: string) => join(site, "releases", id),
    kept: join(site, "kept"),
    status: join(site, "status.json"),
    work,
    clone: join(work, "clone"),
    /** What hugo writes into; a new folder for each build. */
    out: join(work, "out"),
    cache: join(work, "cache"),
    manifests: join(work, "manifests"),
    manifest: (id: string) => join(work, "manifests", `${id}.json`),
    held: join(work, "held"),
    /** Holds the commit whose checkout is complete, and on the disk. */
    checkedOut: join(work, "checked-out"),
  };
}

export function makePlaces({ work, releases, kept, manifests, cache }: Places): void {
  mkdirSync(work, { recursive: true, mode: 0o700 });
  for (const folder of [releases, kept, manifests, cache]) mkdirSync(folder, { recursive: true });
  // hugo's account writes there; no other account gets past `work`.
  chmodSync(cache, 0o777);
}

/** The head that a rollback left. While the branch stays there, only a request builds. */
export function heldHead({ held }: Places): string | null {
  const text = ifThere(() => readFileSync(held, "utf8"))?.trim();
  return text && /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

export const hold = ({ held }: Places, head: string): void => writeWhole(held, `${head}\n`, 0o600);

export function letGo({ held, work }: Places): void {
  if (ifThere(() => readFileSync(held)) === undefined) return;
  remove(held);
  syncFolder(work);
}
