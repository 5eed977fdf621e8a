/** What each test of a file has for itself: the places of a site without a repository, a new site, or a copy of a published one. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach } from "vitest";
import { remove } from "../../../service/builder/files.ts";
import { makePlaces, type Places, placesOf } from "../../../service/builder/places.ts";
import { type Bench, bench, type Change, cannotBuild, closeGitHost, copyOf, published } from "./harness.ts";

export let places: Places;
export let site: Bench;

export function onPlaces(): void {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pushgate-places-"));
    const at = (name: string) => join(folder, name);
    const given = { site: at("site"), spool: at("spool"), requests: at("requests"), rootRequests: at("root") };
    places = placesOf(given);
    makePlaces(places);
    for (const path of [given.spool, given.requests, given.rootRequests]) mkdirSync(path);
  });
  // Releases are read-only for all but root.
  afterEach(() => remove(folder));
}

function onBench(make: () => Promise<Bench>): void {
  let own: Bench | undefined;
  beforeEach(async ({ skip }) => {
    skip(cannotBuild !== undefined, cannotBuild);
    own = await make();
    site = own;
    places = site.places;
  });
  afterEach(() => own?.remove());
  afterAll(closeGitHost);
}

/** With nothing published. */
export const onSites = (change: Change): void => onBench(() => bench(change));

/** All revisions up to this one are published. */
export function onCopies(revision: number, change: Change = {}): void {
  let original: Bench | undefined;
  onBench(async () => {
    original ??= await published(revision, change);
    return copyOf(original);
  });
  afterAll(() => original?.remove());
}
