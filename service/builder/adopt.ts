/**
 * A folder that was served before pushgate came: it is compared with what would be built, so that root can say before
 * anything changes what would be missing; and once root has made it the first release, it is given a manifest.
 */
import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { currentRelease } from "./current.ts";
import { ifThere, isUnder, walk } from "./files.ts";
import { pagesOf } from "./gate.ts";
import { hashOf } from "./lay.ts";
import { draft, type Entry, type Manifest, readManifest, seal } from "./manifest.ts";
import type { Places } from "./places.ts";
import { failed } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";
import type { Adoption } from "./status.ts";

/** Names in status.json; the rest is a number. */
const mostNamed = 100;

/** Whether what the web server serves is still a folder of somebody else's. */
export const isAdoptable = (webRoot: string): boolean => ifThere(() => lstatSync(webRoot))?.isDirectory() === true;

/** What is in the folder and would be gone: neither built nor kept. */
export function compare({ webRoot, keep }: BuilderSettings, { release, files }: Manifest): Adoption {
  // What is kept is its owner's, and may be closed to the builder.
  const isKept = (path: string): boolean => keep.some((kept) => isUnder(path, kept));
  let names: string[];
  try {
    const found = walk(webRoot, false, isKept);
    names = [...found.files.map(({ path }) => path), ...found.links, ...found.others].sort();
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    throw failed(`${path ?? webRoot} can't be read (${code}): the builder compares what is in it, chmod a+rX it`);
  }
  const lost = names.filter((path) => !files.has(path));
  return { release, files: lost.slice(0, mostNamed), more: Math.max(0, lost.length - mostNamed) };
}

/** What `current` leads to and nobody built here: from now on it is a release as any other, of no commit. */
export function registerAdopted(places: Places, keep: readonly string[]): void {
  const release = currentRelease(places);
  if (release === undefined || readManifest(places, release)) return;
  const folder = places.release(release);
  const found = walk(folder);
  const files = new Map<string, Entry>();
  for (const { path } of found.files) {
    const laid = hashOf(join(folder, path));
    if (laid) files.set(path, { ...laid, built: release });
  }
  draft(places, {
    release,
    commit: null,
    at: lstatSync(folder).mtime.toISOString(),
    pages: pagesOf(found.files, keep),
    bytes: [...files.values()].reduce((sum, { size }) => sum + size, 0),
    files,
    links: new Map(found.links.map((path) => [path, readlinkSync(join(folder, path))])),
  });
  seal(places, release);
}
