/** Where everything of one site lies. Only `work` is hidden from others: its clone may be of a private repository. */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { BuilderSettings } from "./settings.ts";

export type Places = ReturnType<typeof placesOf>;

/** `root`: the user whose asks may roll back and adopt; another than 0 only in a test that is not run by root. */
export function placesOf({ site, spool, asks }: Pick<BuilderSettings, "site" | "spool" | "asks">, root = 0) {
  const work = join(site, "work");
  return {
    root,
    spool,
    asks,
    site,
    /** The link the web server follows, to releases/<id>. */
    current: join(site, "current"),
    releases: join(site, "releases"),
    release: (id: string) => join(site, "releases", id),
    kept: join(site, "kept"),
    status: join(site, "status.json"),
    work,
    clone: join(work, "clone"),
    /** What hugo writes into; a fresh folder at each build. */
    out: join(work, "out"),
    cache: join(work, "cache"),
    manifests: join(work, "manifests"),
    manifest: (id: string) => join(work, "manifests", `${id}.json`),
    /** The head a rollback turned away from. */
    held: join(work, "held"),
    /** The commit whose checkout is whole, and on the disk. */
    checkedOut: join(work, "checked-out"),
  };
}

/** Makes what is missing of it, and nothing beside it. */
export function makePlaces(places: Places): void {
  mkdirSync(places.work, { recursive: true, mode: 0o700 });
  for (const folder of [places.releases, places.kept, places.manifests]) mkdirSync(folder, { recursive: true });
  mkdirSync(places.cache, { recursive: true });
  // Another user's hugo writes there; nobody else gets past `work`.
  chmodSync(places.cache, 0o777);
}

/** Sorts by age: the sequence comes first. */
export const releaseId = /^\d{6}-[0-9a-z]+$/;
