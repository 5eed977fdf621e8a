/** The link the web server follows. The rename that replaces it is the publish; nothing else is ever seen. */
import { lstatSync, readlinkSync, renameSync, symlinkSync } from "node:fs";
import { ifThere, remove, syncFolder } from "./files.ts";
import { type Manifest, readManifest } from "./manifest.ts";
import { type Places, releaseId } from "./places.ts";
import { failed } from "./setback.ts";

/** The release `current` leads to, if there is one. */
export function currentRelease(places: Places): string | undefined {
  let target: string | undefined;
  try {
    target = ifThere(() => readlinkSync(places.current));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
    throw failed(`${places.current} is no link: move it away; the next run makes it anew`);
  }
  const id = target && /^releases\/([^/]+)$/.exec(target)?.[1];
  return id && releaseId.test(id) && ifThere(() => lstatSync(places.release(id)).isDirectory()) ? id : undefined;
}

/** What is published, by its own manifest and nothing else. */
export function deployed(places: Places): Manifest | undefined {
  const id = currentRelease(places);
  return id === undefined ? undefined : readManifest(places, id);
}

/** Atomic, and on the disk when it returns. What it leads to must be on the disk before. */
export function switchTo(places: Places, release: string): void {
  const next = `${places.current}.new`;
  remove(next);
  symlinkSync(`releases/${release}`, next);
  renameSync(next, places.current);
  syncFolder(places.site);
}
