/** What each test of a file has for itself: the places of a site without a repository, or a copy of a published site. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach } from "vitest";
import { remove } from "../../../service/builder/files.ts";
import { makePlaces, type Places, placesOf } from "../../../service/builder/places.ts";
import { type Bench, type Change, cannotBuild, closeGitHost, copyOf, published } from "./harness.ts";

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

/** All revisions up to this one are published. */
export function onCopies(revision: number, change: Change = {}): void {
  let original: Bench | undefined;
  let copy: Bench | undefined;
  beforeEach(async ({ skip }) => {
    skip(cannotBuild !== undefined, cannotBuild);
    original ??= await published(revision, change);
    copy = await copyOf(original);
    site = copy;
    places = site.places;
  });
  afterEach(() => copy?.remove());
  afterAll(async () => {
    original?.remove();
    await closeGitHost();
  });
}
