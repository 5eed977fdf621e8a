/** The releases of a site: a folder each, a manifest for each complete one, and the link `current` to the published one. */
import { lstatSync, readdirSync, readFileSync, readlinkSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ifThere, most, remove, syncFolder, walk } from "../files.ts";
import type { Places } from "../places.ts";
import { failed } from "../run/setback.ts";
import { hashOf } from "./hashed.ts";

/** `built`: the release whose build made the file: another one where an asset is carried along. */
export type ReleaseFile = Readonly<{ size: number; sha256: string; built: string }>;

/**
 * The site's folder in the repository, "" for its top; the content's folder outside of it; what the build read of the
 * repository, by its mounts, else all; and the digest of the generator's settings.
 */
export type From = Readonly<{ folder: string; content?: string; read?: readonly string[]; digest?: string }>;

export type Manifest = {
  readonly release: string;
  readonly commit: string;
  readonly at: string;
  readonly pages: number;
  readonly from: From;
  readonly warnings?: readonly string[]; // a former version of the builder wrote none
  readonly bytes: number;
  /** Of a site of previews, by folder. */
  readonly previews?: Readonly<Record<string, PreviewBuild>>;
};
/** The commit of a branch, from which its folder was built. */
export type PreviewBuild = Pick<Manifest, "commit" | "pages" | "from"> & { readonly branch: string };
export type Files = ReadonlyMap<string, ReleaseFile>;
type WithFiles = { readonly files: Files };
type Built = Pick<Manifest, "release"> & WithFiles;

const mostKept = 5;
const inTurn = 50; // files, which take 3 ms where they are small

/** The number comes first, so that names sort by age. */
const releaseId = /^\d{6}-[0-9a-z]+$/;

/** Writes a manifest, before the release is synced, under a name that does not count yet. */
export function draft(places: Places, manifest: Omit<Manifest, "bytes"> & WithFiles): Manifest & WithFiles {
  const bytes = [...manifest.files.values()].reduce((sum, { size }) => sum + size, 0);
  const files = [...manifest.files].map(([path, { size, sha256, built }]) =>
    built === manifest.release ? [path, size, sha256] : [path, size, sha256, built],
  );
  const path = `${places.manifest(manifest.release)}.new`;
  remove(path);
  writeFileSync(path, `${JSON.stringify({ ...manifest, bytes, files })}\n`, { flag: "wx" });
  return { ...manifest, bytes };
}

/** From now on the release, which is synced, counts. */
export function seal(places: Places, release: string): void {
  renameSync(`${places.manifest(release)}.new`, places.manifest(release));
  syncFolder(places.manifests);
}

/** Manifests by path: none ever changes, and one of 5,000 files takes 5 ms to read. */
const known = new Map<string, Manifest>();
/** Of one manifest at a time: the largest takes 100 MB. */
let last: ({ readonly path: string } & WithFiles) | undefined;

/** No release has a larger one. */
const mostBytes = most.entries * 160 + most.pathBytes;

function read(path: string, release: string): void {
  last = undefined;
  try {
    if (lstatSync(path).size > mostBytes) return;
    const { files: lines, ...rest } = JSON.parse(readFileSync(path, "utf8"));
    if (rest.release !== release) return;
    const files = new Map<string, ReleaseFile>();
    for (const [file, size, sha256, built = release] of lines) files.set(file, { size, sha256, built });
    known.set(path, rest);
    last = { path, files };
  } catch {}
}

export function readManifest(places: Places, release: string): Manifest | undefined {
  const path = places.manifest(release);
  if (!known.has(path)) read(path, release);
  return known.get(path);
}

export function filesOf(places: Places, release: string): Files {
  const path = places.manifest(release);
  if (last?.path !== path) read(path, release);
  return last?.files ?? new Map();
}

export function releases({ manifests, releases }: Places): string[] {
  const finished = new Set(ifThere(() => readdirSync(manifests)) ?? []);
  return (ifThere(() => readdirSync(releases)) ?? [])
    .filter((name) => releaseId.test(name) && finished.has(`${name}.json`))
    .sort()
    .reverse();
}

export function currentRelease({ current, release }: Places): string | undefined {
  const isLink = ifThere(() => lstatSync(current).isSymbolicLink());
  const id = isLink && /^releases\/([^/]+)$/.exec(readlinkSync(current))?.[1];
  return id && releaseId.test(id) && ifThere(() => lstatSync(release(id)).isDirectory()) ? id : undefined;
}

export function deployed(places: Places): Manifest | undefined {
  const id = currentRelease(places);
  return id === undefined ? undefined : readManifest(places, id);
}

export function nextId(places: Places, commit: string): string {
  const names = [...readdirSync(places.releases), ...readdirSync(places.manifests)];
  const numbers = names.map((name) => Number(/^(\d{6})-/.exec(name)?.[1] ?? 0));
  return `${String(Math.max(0, ...numbers) + 1).padStart(6, "0")}-${commit.slice(0, 12)}`;
}

/** The releases that stay when `next` is published: it, the current one, and the newest of the others. */
export function staying(places: Places, next = currentRelease(places)): string[] {
  const first = [next, currentRelease(places)].filter((id) => id !== undefined);
  return [...new Set([...first, ...releases(places)])].slice(0, mostKept);
}

/** Publishes a release that is on the disk, by one rename that is on the disk when this returns. */
export function switchTo(places: Places, release: string): void {
  const next = `${places.current}.new`;
  remove(next);
  symlinkSync(`releases/${release}`, next);
  try {
    renameSync(next, places.current);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EISDIR") throw error;
    throw failed(`${places.current} is a folder and should be a link. Move it away.`);
  }
  syncFolder(places.site);
}

/** Removes the other releases, manifests first: what a kill leaves of a release is no longer one. */
export function prune(places: Places, stay: readonly string[]): void {
  const old = releases(places).filter((id) => !stay.includes(id));
  last = undefined;
  for (const id of old) {
    known.delete(places.manifest(id));
    remove(places.manifest(id));
  }
  for (const id of old) remove(places.release(id));
}

/** Removes releases that were never finished. What is published stays, whatever it lacks. */
export function removeHalf(places: Places): void {
  remove(`${places.current}.new`);
  const finished = new Set([...releases(places), currentRelease(places)]);
  for (const name of readdirSync(places.releases))
    if (releaseId.test(name) && !finished.has(name)) remove(places.release(name));
  for (const name of readdirSync(places.manifests))
    if (!ifThere(() => lstatSync(places.release(name.replace(/\.json$/, ""))))) remove(join(places.manifests, name));
}

/** Whether two releases were built with the same files; what they carry along may differ. */
export function isSameBuild(one: Built, other: Built): boolean {
  const built = ({ release, files }: Built) => new Map([...files].filter(([, file]) => file.built === release));
  return changedBetween(built(one), built(other)).length === 0;
}

/** Paths of files that one of them lacks, or that differ. */
export const changedBetween = (one: Files, other: Files): string[] =>
  [...new Set([...one.keys(), ...other.keys()])].filter((path) => one.get(path)?.sha256 !== other.get(path)?.sha256);

/** Files of a release that are as they were published. Reads them in turns with other work, such as that of a build. */
export async function intact(places: Places, release: string | undefined): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  if (release === undefined) return found;
  let read = 0;
  for (const [path, { sha256 }] of filesOf(places, release)) {
    if (hashOf(join(places.release(release), path))?.sha256 === sha256) found.add(path);
    if (++read % inTurn === 0) await setImmediate();
  }
  return found;
}

/** Paths of a release that are missing, differ from what was published, or were added. */
export async function differences(places: Places, release: string): Promise<string[]> {
  const folder = places.release(release);
  const found = ifThere(() => walk(folder));
  if (!found) return [release];
  const same = await intact(places, release);
  const files = filesOf(places, release);
  const added = [...found.files, ...found.links, ...found.others].filter((path) => !files.has(path));
  const changed = [...files.keys()].filter((path) => !same.has(path));
  return [...added, ...changed].sort();
}
