/** A folder that was served before pushgate was installed: its comparison with a build, and its manifest as a release. */
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { pagesOf } from "../build/gate.ts";
import { ifThere, isKept, walk } from "../files.ts";
import type { Places } from "../places.ts";
import type { Adoption } from "../run/status.ts";
import { hashOf } from "./link-or-copy.ts";
import { currentRelease, draft, type Manifest, type ReleaseFile, readManifest, seal } from "./releases.ts";

/** Lost files that status.json names; of the others it has the number. */
const mostNamed = 100;

/** Whether root has listed a folder that is to be adopted. */
export const isAdoptable = ({ listing }: Places): boolean => ifThere(() => lstatSync(listing)) !== undefined;

/** The files of the folder that are neither built nor kept. The builder cannot see the folder: root has listed it. */
export function compare({ listing }: Places, keep: readonly string[], { files }: Manifest): Adoption {
  const found = readFileSync(listing, "utf8")
    .split("\0")
    .filter((path) => path !== "" && !isKept(path, keep));
  const lost = found.filter((path) => !files.has(path)).sort();
  return { files: lost.slice(0, mostNamed), more: Math.max(0, lost.length - mostNamed) };
}

/** Gives the adopted folder a manifest, so that it is a release of no commit. */
export function registerAdopted(places: Places, keep: readonly string[]): void {
  const release = currentRelease(places);
  if (release === undefined || readManifest(places, release)) return;
  const folder = places.release(release);
  const found = walk(folder);
  const files = new Map<string, ReleaseFile>();
  for (const path of found.files) {
    const hashed = hashOf(join(folder, path));
    if (hashed) files.set(path, { ...hashed, built: release });
  }
  const at = lstatSync(folder).mtime.toISOString();
  const links = new Map(found.links.map((path) => [path, readlinkSync(join(folder, path))]));
  draft(places, { release, commit: null, at, pages: pagesOf(found.files, keep), files, links });
  seal(places, release);
}
