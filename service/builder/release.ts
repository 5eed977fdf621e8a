/**
 * A release: a folder of its own that is never changed again. What hugo wrote is linked from the published release where
 * that has the same bytes, else copied; never renamed, as hugo may still hold a descriptor. Five are kept.
 *
 * Pages that are still open refer to the assets of the release they came from. So the assets of each kept release are
 * linked into the next ones, until no kept release has built them; pages never are: what was taken away is gone.
 */
import { chmodSync, linkSync, lstatSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { dirname, extname, join, relative } from "node:path";
import { runChild } from "./child.ts";
import { currentRelease, switchTo } from "./current.ts";
import { type Found, ifThere, isUnder, remove, syncFolder } from "./files.ts";
import { pagesOf } from "./gate.ts";
import { hashOf, lay } from "./lay.ts";
import { draft, type Entry, type Manifest, readManifest, releases, removeManifest, seal } from "./manifest.ts";
import { type Places, releaseId } from "./places.ts";
import { failed, listed } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

const mostKept = 5;

/** Which releases stay when `next` is published: it, the one before it, and the newest of the rest. */
export function staying(places: Places, next: string, former: string | undefined): string[] {
  const known = releases(places).filter((id) => id !== next && id !== former);
  return [next, ...(former !== undefined && former !== next ? [former] : []), ...known].slice(0, mostKept);
}

/** One more than all that are there, finished or not. 000001 is left to what may be adopted. */
function nextId(places: Places, commit: string): string {
  const names = [...readdirSync(places.releases), ...readdirSync(places.manifests)];
  const sequence = names
    .filter((name) => /^\d{6}-/.test(name))
    .reduce((max, name) => Math.max(max, Number(name.slice(0, 6))), 1);
  return `${String(sequence + 1).padStart(6, "0")}-${commit.slice(0, 12)}`;
}

/**
 * Makes a release of what is in `out`, whole and on the disk when it returns, and visible to nobody. Adds to `warnings`.
 * What it leaves when it throws has no manifest.
 */
export async function makeRelease(
  settings: Pick<BuilderSettings, "keep" | "assets">,
  places: Places,
  commit: string,
  out: string,
  found: Found,
  warnings: string[],
): Promise<Manifest> {
  const release = nextId(places, commit);
  const folder = places.release(release);
  const former = currentRelease(places);
  const files = new Map<string, Entry>();
  try {
    mkdirSync(folder);
    layBuilt(settings.keep, places, release, out, found, files, warnings);
    carryAssets(settings, places, release, staying(places, release, former), files, warnings);
    const links = linkKept(settings.keep, places, folder, warnings);
    closeFolders(folder);
    const manifest: Manifest = {
      release,
      commit,
      at: new Date().toISOString(),
      pages: pagesOf(found.files, settings.keep),
      bytes: [...files.values()].reduce((sum, { size }) => sum + size, 0),
      files,
      links,
    };
    draft(places, manifest);
    await syncFileSystem(places);
    seal(places, release);
    return manifest;
  } catch (error) {
    // A full disk has the room back at once.
    remove(folder);
    throw error;
  }
}

function layBuilt(
  keep: readonly string[],
  places: Places,
  release: string,
  out: string,
  found: Found,
  files: Map<string, Entry>,
  warnings: string[],
): void {
  const folder = places.release(release);
  const isKept = (path: string) => keep.some((kept) => isUnder(path, kept));
  const formerId = currentRelease(places);
  const former = formerId === undefined ? undefined : readManifest(places, formerId);
  for (const path of found.folders) if (!isKept(path)) mkdirSync(join(folder, path));
  const shadowed: string[] = [];
  for (const { path } of found.files) {
    if (isKept(path)) {
      shadowed.push(path);
      continue;
    }
    const known = former?.files.get(path);
    const published = known && formerId && { ...known, file: join(places.release(formerId), path) };
    files.set(path, { ...lay(join(out, path), join(folder, path), published || undefined), built: release });
  }
  if (shadowed.length > 0) warnings.push(`built, but in the way of site.keep, and left out: ${listed(shadowed)}`);
}

function carryAssets(
  { assets, keep }: Pick<BuilderSettings, "assets" | "keep">,
  places: Places,
  release: string,
  stay: readonly string[],
  files: Map<string, Entry>,
  warnings: string[],
): void {
  const extensions = new Set(assets.map((extension) => `.${extension}`));
  const changed: string[] = [];
  for (const id of stay.filter((id) => id !== release)) {
    for (const [path, entry] of readManifest(places, id)?.files ?? []) {
      if (entry.built !== id || files.has(path) || !extensions.has(extname(path).toLowerCase())) continue;
      if (keep.some((kept) => isUnder(path, kept))) continue;
      const from = join(places.release(id), path);
      // A file somebody changed would be handed on for five releases.
      if (hashOf(from)?.sha256 !== entry.sha256) changed.push(`${id}/${path}`);
      else if (linkBelow(places.release(release), path, from)) files.set(path, entry);
    }
  }
  if (changed.length > 0) warnings.push(`assets changed on the disk are not carried along: ${listed(changed)}`);
}

/** False where this build has a file for one of its folders, or a folder of its name. */
function linkBelow(folder: string, path: string, from: string): boolean {
  try {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    linkSync(from, join(folder, path));
    return true;
  } catch (error) {
    if (["EEXIST", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}

/** Relative, so that the site's folder can be moved, and is right in whatever a sandbox shows of it. */
function linkKept(keep: readonly string[], places: Places, folder: string, warnings: string[]): Map<string, string> {
  const links = new Map<string, string>();
  // Below another kept path there is nothing of ours to link in.
  for (const path of keep.filter((path) => !keep.some((other) => other !== path && isUnder(path, other)))) {
    const link = join(folder, path);
    const target = relative(dirname(link), join(places.kept, path));
    try {
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(target, link);
      links.set(path, target);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST" && code !== "ENOTDIR") throw error;
      warnings.push(`site.keep: ${path} is not linked, as the build has a file in its place`);
    }
  }
  return links;
}

function closeFolders(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) closeFolders(join(folder, entry.name));
  chmodSync(folder, 0o555);
}

/** Everything that was written, in one go: an fsync for each of 5,000 files takes seconds. */
async function syncFileSystem({ site }: Places): Promise<void> {
  const env = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C" };
  const { code, stderr } = await runChild("sync", ["-f", site], { cwd: "/", env, seconds: 600 });
  if (code === 0) return;
  if (/No space left|quota/.test(stderr)) throw Object.assign(new Error(stderr), { code: "ENOSPC" });
  throw failed(`the disk does not take what was written: ${stderr.trim()}`);
}

/** Makes it the site, and returns those that stay. */
export function publish(places: Places, release: string): readonly string[] {
  const stay = staying(places, release, currentRelease(places));
  switchTo(places, release);
  return stay;
}

/** The others are removed, the manifest first: what a kill leaves of one is no release any more. */
export function prune(places: Places, stay: readonly string[]): void {
  const old = releases(places).filter((id) => !stay.includes(id));
  for (const id of old) removeManifest(places, id);
  if (old.length > 0) syncFolder(places.manifests);
  for (const id of old) remove(places.release(id));
}

/** At the start: what a kill or a power cut left behind. What is published stays, whatever it lacks. */
export function removeHalf(places: Places): void {
  remove(`${places.current}.new`);
  const finished = new Set([...releases(places), currentRelease(places)]);
  for (const name of readdirSync(places.releases))
    if (releaseId.test(name) && !finished.has(name)) remove(places.release(name));
  for (const name of readdirSync(places.manifests))
    if (name.endsWith(".new") || !ifThere(() => lstatSync(places.release(name.replace(/\.json$/, "")))))
      remove(join(places.manifests, name));
}
