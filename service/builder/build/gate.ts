/** Checks a build before it is published. Hugo's exit status is not enough: without layouts Hugo exits with 0. */
import { few, isUnder, type Tree, tooMany, walk } from "../files.ts";
import { type Hashed, hashed } from "../release/link-or-copy.ts";
import { listed, mebibytes, rejected } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";
import { onDisk } from "./disk.ts";
import { isPointer, pointersLeft } from "./pointers.ts";

/**
 * `former`: the pages of the published release; `content`: those to compare with else; `hint`, `version`: after and before
 * the reason where pages are missing. Throws Setback.
 */
export function gate(
  out: string,
  settings: BuilderSettings,
  former: number | null,
  content: number,
  hint: string,
  version = "",
): Build {
  const { limits, folders } = settings;
  const { found, pointers } = lookAt(out);
  const shadowed = found.files.filter((path) => folders.some((name) => isUnder(path, name)));
  const pages = pagesOf(found.files);
  const bytes = [...found.hashes.values()].reduce((sum, { size }) => sum + onDisk(size), 0);
  const home = found.hashes.get("index.html");
  const than =
    former === null
      ? `the content has ${content} that are no drafts. Add the missing layouts; if these pages need none`
      : `the published release has ${former}. Check the content; if the pages were removed on purpose`;
  const faults = {
    [`Hugo wrote symbolic links, which may lead anywhere: ${listed(found.links)}. Remove them.`]:
      found.links.length > 0,
    [`Hugo wrote something that is no file: ${listed(found.others)}. Remove it.`]: found.others.length > 0,
    [pointersLeft(pointers)]: pointers.length > 0,
    [`${version}Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.${hint}`]: !home,
    [`${version}Hugo wrote an empty index.html. Correct layouts/index.html, which gives nothing.${hint}`]:
      home?.size === 0,
    [`nginx serves a folder of hooks[].site.folders in place of these files: ${listed(shadowed)}. Rename the folder there, or the files.`]:
      shadowed.length > 0,
    [`${version}only ${pages} pages were built and ${than}, lower hooks[].site.limits.pagesPercent (${limits.pagesPercent}).${hint}`]:
      pages < Math.ceil(((former ?? content) * limits.pagesPercent) / 100),
    [`the site takes ${mebibytes(bytes)} MiB on the disk, and may take ${mebibytes(limits.releaseBytes)}. Raise hooks[].site.limits.releaseMiB.`]:
      bytes > limits.releaseBytes,
  };
  const [fault] = Object.entries(faults).find(([, isSo]) => isSo) ?? [];
  if (fault !== undefined) throw rejected(fault);
  return found;
}

export const pagesOf = (files: readonly string[]): number => files.filter((path) => /\.html?$/i.test(path)).length;

/** What the generator wrote; the hash of each file. */
export type Build = Tree & { readonly hashes: ReadonlyMap<string, Hashed> };

/** Bytes that a pointer of Git LFS takes; few other files have that size. */
const ofPointer = { least: 120, most: 150 } as const;

export function lookAt(out: string): { readonly found: Build; readonly pointers: readonly string[] } {
  try {
    const hashes = new Map<string, Hashed>();
    const pointers: string[] = [];
    const found = walk(out, few(), (path, at) => {
      const built = hashed(at);
      hashes.set(path, built);
      if (built.size >= ofPointer.least && built.size <= ofPointer.most && isPointer(at)) pointers.push(path);
    });
    return { found: { ...found, hashes }, pointers };
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === "E2BIG") throw rejected(`Hugo wrote ${tooMany}. Make the site smaller.`);
    if (code !== "ENOENT") throw error;
    throw rejected(`Hugo wrote a name that is not UTF-8: ${listed([String(path)])}. Rename it.`);
  }
}
