/** A folder that was served before pushgate was installed: its comparison with a build, and its manifest as a release. */
import { lstatSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { ifThere, isKept, walk } from "./files.ts";
import { pagesOf } from "./gate.ts";
import { hashOf } from "./lay.ts";
import type { Places } from "./places.ts";
import { currentRelease, draft, type Entry, type Manifest, readManifest, seal } from "./releases.ts";
import { failed } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";
import type { Adoption } from "./status.ts";

/** Names in status.json; the rest is a number. */
const mostNamed = 100;

/** Whether the web root is still a folder that pushgate did not make. */
export const isAdoptable = (webRoot: string): boolean => ifThere(() => lstatSync(webRoot))?.isDirectory() === true;

/** The files of the folder that are neither built nor kept. */
export function compare({ webRoot, keep }: BuilderSettings, { release, files }: Manifest): Adoption {
  try {
    // A kept folder may be closed to the builder.
    const found = walk(webRoot, (path) => isKept(path, keep));
    const lost = [...found.files, ...found.links, ...found.others].filter((path) => !files.has(path)).sort();
    return { release, files: lost.slice(0, mostNamed), more: Math.max(0, lost.length - mostNamed) };
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    throw failed(`${path ?? webRoot} can't be read (${code}). Run chmod a+rX on it: the builder compares its files.`);
  }
}

/** Gives the adopted folder a manifest, so that it is a release of no commit. */
export function registerAdopted(places: Places, keep: readonly string[]): void {
  const release = currentRelease(places);
  if (release === undefined || readManifest(places, release)) return;
  const folder = places.release(release);
  const found = walk(folder);
  const files = new Map<string, Entry>();
  for (const path of found.files) {
    const laid = hashOf(join(folder, path));
    if (laid) files.set(path, { ...laid, built: release });
  }
  const at = lstatSync(folder).mtime.toISOString();
  const links = new Map(found.links.map((path) => [path, readlinkSync(join(folder, path))]));
  draft(places, { release, commit: null, at, pages: pagesOf(found.files, keep), files, links });
  seal(places, release);
}
