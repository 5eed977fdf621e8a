/** Makes a release, which never changes, with the assets of former ones: open pages refer to them (decision 011). */
import { chmodSync, linkSync, mkdirSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { tried } from "../../tried.ts";
import { needRoom } from "../build/disk.ts";
import { type Build, pagesOf } from "../build/gate.ts";
import { runChild } from "../child.ts";
import { below, counting, isUnder, remove, type Tree, tooMany } from "../files.ts";
import type { Places } from "../places.ts";
import { failed, listed, rejected } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";
import { copy, type Hashed, hashOf } from "./hashed.ts";
import { currentRelease, draft, filesOf, type Manifest, nextId, type ReleaseFile, seal, staying } from "./releases.ts";

type Rules = Pick<BuilderSettings, "assets">;
export type Source = Pick<Manifest, "from" | "commit" | "previews"> & { readonly warnings: string[] };

type Draft = Readonly<{ places: Places; release: string; folder: string; files: Map<string, ReleaseFile> }>;

/**
 * Makes a release of the generator's output: on the disk, and not yet published. Adds to the warnings. `intact`: files of the
 * current release that no person changed on the disk; `kept`: its folders that are carried along whole.
 */
export async function makeRelease(
  { assets }: Rules,
  places: Places,
  source: Source,
  found: Build,
  intact: ReadonlySet<string>,
  kept: readonly string[] = [],
) {
  const release = nextId(places, source.commit);
  const folder = places.release(release);
  const draftOf: Draft = { places, release, folder, files: new Map() };
  try {
    mkdirSync(folder);
    addBuilt(draftOf, found, intact);
    const { changed, many } = carryAlong(draftOf, assets, kept, intact);
    if (changed.length > 0) source.warnings.push(`files changed on the disk are not carried along: ${listed(changed)}`);
    if (many > 0) source.warnings.push(`${many} assets of former releases are not carried along: they are too many`);
    for (const path of foldersOf(found, draftOf)) chmodSync(join(folder, path), 0o555);
    const at = new Date().toISOString();
    const manifest = draft(places, { release, ...source, at, pages: pagesOf(found.files), files: draftOf.files });
    await syncFileSystem(places);
    seal(places, release);
    return manifest;
  } catch (error) {
    // On a full disk, this frees the release's space at once.
    remove(folder);
    throw error;
  }
}

/** Links the published file of the same bytes, else copies. */
function addBuilt({ places, release, folder, files }: Draft, found: Build, intact: ReadonlySet<string>): void {
  const current = currentRelease(places);
  const former = current === undefined ? undefined : filesOf(places, current);
  for (const path of found.folders) mkdirSync(join(folder, path));
  for (const [path, built] of found.hashes) {
    const target = join(folder, path);
    const isSame = intact.has(path) && former?.get(path)?.sha256 === built.sha256;
    if (!isSame || !tryLink(join(places.release(current!), path), target)) {
      needRoom(places.site, built.size);
      copyBuilt(places.out, path, target, built);
    }
    files.set(path, { ...built, built: release });
  }
}

/** False on a file system without hard links, and where the file has as many as it may have. */
const tryLink = (from: string, to: string): boolean =>
  tried(() => {
    linkSync(from, to);
    return true;
  }) === true;

/** Of what the generator wrote, by descriptors: it may still exchange a folder for a link. */
const copyBuilt = (out: string, path: string, target: string, built: Hashed) =>
  below(out, path.split("/").slice(0, -1).join("/"), (here) => copy(join(here, basename(path)), target, built));

/** With those of what is carried along. */
function foldersOf({ folders }: Tree, { files }: Draft): ReadonlySet<string> {
  const all = new Set([".", ...folders]);
  for (const path of files.keys()) for (let at = dirname(path); !all.has(at); at = dirname(at)) all.add(at);
  return all;
}

/** Returns those that were changed on the disk: they would be carried along for five releases. */
function carryAlong(
  { places, release, folder, files }: Draft,
  assets: readonly string[],
  kept: readonly string[],
  intact: ReadonlySet<string>,
) {
  const current = currentRelease(places);
  const extensions = new Set(assets.map((extension) => `.${extension}`));
  const changed: string[] = [];
  const fits = counting();
  for (const path of files.keys()) fits(path);
  let many = 0;
  const carry = (id: string, isWanted: (path: string, entry: ReleaseFile) => boolean, onTooMany: () => void) => {
    for (const [path, entry] of filesOf(places, id)) {
      if (!isWanted(path, entry) || files.has(path)) continue;
      const from = join(places.release(id), path);
      const isIntact = () => (id === current ? intact.has(path) : hashOf(from)?.sha256 === entry.sha256);
      if (!fits(path)) onTooMany();
      else if (!isIntact()) changed.push(`${id}/${path}`);
      else if (linked(from, join(folder, path))) files.set(path, entry);
    }
  };
  if (kept.length > 0 && current !== undefined)
    carry(
      current,
      (path) => kept.some((top) => isUnder(path, top)),
      () => {
        throw rejected(
          `all previews together have ${tooMany}. Lower hooks[].site.previews.keep, or remove branches; then run npx pushgate build.`,
        );
      },
    );
  for (const id of staying(places, release))
    carry(
      id,
      (path, { built }) => built === id && extensions.has(extname(path).toLowerCase()),
      () => (many += 1),
    );
  return { changed, many };
}

/** False where the build has a file for one of the path's folders, or anything of the path's name. */
function linked(from: string, to: string): boolean {
  try {
    mkdirSync(dirname(to), { recursive: true });
    linkSync(from, to);
    return true;
  } catch (error) {
    if (["EEXIST", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}

/** At once: an fsync for each of 5,000 files takes seconds. */
async function syncFileSystem({ site }: Places): Promise<void> {
  const env = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C" };
  const { code, stderr } = await runChild("sync", ["-f", site], { cwd: "/", env, seconds: 600 });
  if (code === 0) return;
  if (/No space left|quota/.test(stderr)) throw Object.assign(new Error(stderr), { code: "ENOSPC" });
  throw failed(`the disk did not take what was written: ${stderr.trim()}`);
}
