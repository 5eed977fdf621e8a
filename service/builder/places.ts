/** The paths of one site. `work` alone is closed to other accounts: its clone may be of a private repository. */
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { readText, remove, syncFolder, writeWhole } from "./files.ts";
import type { BuilderSettings } from "./settings.ts";

export type Places = ReturnType<typeof placesOf>;

export function placesOf(given: Pick<BuilderSettings, "site" | "spool" | "requests" | "rootRequests">) {
  const { site, spool, requests, rootRequests } = given;
  const work = join(site, "work");
  return {
    spool,
    requests,
    rootRequests,
    site,
    /** The link to releases/<id> that the web server follows. */
    current: join(site, "current"),
    releases: join(site, "releases"),
    release: (id: string) => join(site, "releases", id),
    status: join(site, "status.json"),
    work,
    /** Names of markers that are taken and not published, one a line. */
    taken: join(work, "taken"),
    /** The same, of markers that wait for a long pause to end. */
    parked: join(work, "parked"),
    clone: join(work, "clone"),
    out: join(work, "out"),
    cache: join(work, "cache"),
    /** By the generator's unit: the folders that it mounts; the pages of the content, where this file is not there. */
    mounts: join(work, "cache", "mounts"),
    pages: join(work, "cache", "pages.csv"),
    stats: join(work, "stats.json"),
    history: join(work, "history"),
    /** What the fetcher gets, what it brings, and what was brought whole. */
    wanted: join(work, "wanted"),
    fetched: join(work, "fetched"),
    dependencies: join(work, "dependencies"),
    /** What Git LFS has brought. */
    lfs: join(work, "lfs"),
    manifests: join(work, "manifests"),
    manifest: (id: string) => join(work, "manifests", `${id}.json`),
    held: join(work, "held"),
    /** When the builder tries again after it was ended in a run. */
    paused: join(work, "paused"),
    reported: join(work, "reported"),
    /** Of previews: the commit of each branch whose build failed, and the settings of that build. */
    unbuilt: join(work, "unbuilt.json"),
    /** The release up to which all changes are in reports to purge. */
    purged: join(work, "purged"),
    /** A file for each of the last runs. */
    runs: join(work, "runs"),
    /** The bytes of a release for which the last run made room, until another run begins. */
    roomFor: join(work, "room-for"),
    /** The commit whose checkout is complete, and on the disk. */
    checkedOut: join(work, "checked-out"),
    /** The head for which the clone was made anew. */
    madeAnew: join(work, "made-anew"),
  };
}

export function makePlaces(places: Places): void {
  mkdirSync(places.work, { recursive: true, mode: 0o700 });
  for (const folder of [places.releases, places.manifests, places.runs]) mkdirSync(folder, { recursive: true });
  makeOpen(places.cache);
}

/** For the account of another unit: no third gets past `work`. */
export function makeOpen(folder: string): void {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o777);
}

/** The branch's head when a rollback was made. Until it changes, no push and no comparison publishes it. */
export function heldHead({ held }: Places): string | null {
  const text = readText(held)?.trim();
  return text && /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

export const holdHead = ({ held }: Places, head: string): void => writeWhole(held, `${head}\n`, 0o600);

export function unholdHead({ held, work }: Places): void {
  if (!existsSync(held)) return;
  remove(held);
  syncFolder(work);
}
