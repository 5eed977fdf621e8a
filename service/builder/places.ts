/** The paths of one site. `work` alone is closed to other accounts: its clone may be of a private repository. */
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ifThere, remove, syncFolder, writeWhole } from "./files.ts";
import type { BuilderSettings } from "./settings.ts";

export type Places = ReturnType<typeof placesOf>;

type Given = Pick<BuilderSettings, "site" | "spool" | "requests" | "rootRequests">;

export function placesOf({ site, spool, requests, rootRequests }: Given) {
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
    /** Names of markers that wait for a long pause to end, one a line. */
    parked: join(work, "parked"),
    clone: join(work, "clone"),
    /** What the generator writes into; a new folder for each build. */
    out: join(work, "out"),
    cache: join(work, "cache"),
    /** What the generator writes about the pages into its source. */
    stats: join(work, "stats.json"),
    manifests: join(work, "manifests"),
    manifest: (id: string) => join(work, "manifests", `${id}.json`),
    held: join(work, "held"),
    /** Holds when the builder tries again, after it ended in the middle of a run. */
    paused: join(work, "paused"),
    /** Holds the result that was last reported. */
    reported: join(work, "reported"),
    /** Holds the commit whose checkout is complete, and on the disk. */
    checkedOut: join(work, "checked-out"),
  };
}

export function makePlaces(places: Places): void {
  const { work, releases, manifests } = places;
  mkdirSync(work, { recursive: true, mode: 0o700 });
  for (const folder of [releases, manifests]) mkdirSync(folder, { recursive: true });
  makeCache(places);
}

export function makeCache({ cache }: Places): void {
  mkdirSync(cache, { recursive: true });
  // The generator's account writes there; no other account gets past `work`.
  chmodSync(cache, 0o777);
}

/** The branch's head when a rollback was made. Until it changes, no push and no comparison publishes it. */
export function heldHead({ held }: Places): string | null {
  const text = ifThere(() => readFileSync(held, "utf8"))?.trim();
  return text && /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

export const holdHead = ({ held }: Places, head: string): void => writeWhole(held, `${head}\n`, 0o600);

export function unholdHead({ held, work }: Places): void {
  if (ifThere(() => readFileSync(held)) === undefined) return;
  remove(held);
  syncFolder(work);
}
