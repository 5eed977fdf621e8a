/** The link the web server follows. The rename that replaces it is the publish; nothing else is ever seen. */
import { lstatSync, readlinkSync, renameSync, symlinkSync } from "node:fs";
import { ifThere, remove, syncFolder } from "./files.ts";
import { type Manifest, readManifest } from "./manifest.ts";
import { type Places, releaseId } from "./places.ts";
import { failed } from "./setback.ts";

/** The release `current` leads to, if there is one. */
export function currentRelease({ current, release }: Places): string | undefined {
  const id = /^releases\/([^/]+)$/.exec(targetOf(current) ?? "")?.[1];
  return id && releaseId.test(id) && ifThere(() => lstatSync(release(id)).isDirectory()) ? id : undefined;
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
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
  try {
    renameSync(next, places.current);
  } catch (error) {
    if (!["EISDIR", "ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    throw failed(`${places.current} is a folder, where a link should be: move it away`);
  }
  syncFolder(places.site);
}
