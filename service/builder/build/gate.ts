/** Checks a build before it is published. Hugo's exit status is not enough: without layouts Hugo exits with 0. */
import { few, isUnder, type Tree, tooMany, walk } from "../files.ts";
import { type Hashed, hashed } from "../release/hashed.ts";
import { listed, mebibytes, rejected } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";
import { onDisk } from "./disk.ts";
import { isPointer, pointersLeft } from "./pointers.ts";

/**
 * `former`: the pages of the published release; `content`: those to compare with else; `hint`, `version`: after and before
 * the reason where pages are missing; `printed`: by Hugo. Throws Setback.
 */
export function gate(
  out: string,
  settings: BuilderSettings,
  former: number | null,
  content: number,
  hint: string,
  version = "",
  printed = "",
): Build {
  const { limits, folders } = settings;
  const { found, pointers } = lookAt(out, limits.releaseBytes);
  const shadowed = found.files.filter((path) => folders.some((name) => isUnder(path, name)));
  const pages = pagesOf(found.files);
  const languages = found.hashes.has("index.html") ? [] : languagesIn(printed);
  const homes = languages.length === 0 ? ["index.html"] : languages.map((folder) => `${folder}/index.html`);
  const sizes = homes.map((path) => found.hashes.get(path)?.size);
  const than =
    former === null
      ? `the content has ${content} that are no drafts. Add the missing layouts; if these pages need none`
      : `the published release has ${former}. Check the content; if the pages were removed on purpose`;
  const faults = {
    [`Hugo wrote symbolic links, which may lead anywhere: ${listed(found.links)}. Remove them.`]:
      found.links.length > 0,
    [`Hugo wrote something that is no file: ${listed(found.others)}. Remove it.`]: found.others.length > 0,
    [pointersLeft(pointers)]: pointers.length > 0,
    [`${version}Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.${hint}`]:
      sizes.includes(undefined),
    [`${version}Hugo wrote an empty index.html. Correct layouts/index.html, which gives nothing.${hint}`]:
      sizes.includes(0),
    [`nginx serves a folder of hooks[].site.folders in place of these files: ${listed(shadowed)}. Rename the folder there, or the files.`]:
      shadowed.length > 0,
    [`${version}only ${pages} pages were built and ${than}, lower hooks[].site.limits.pagesPercent (${limits.pagesPercent}).${hint}`]:
      pages < Math.ceil(((former ?? content) * limits.pagesPercent) / 100),
  };
  const [fault] = Object.entries(faults).find(([, isSo]) => isSo) ?? [];
  if (fault !== undefined) throw rejected(fault);
  return found;
}

/** A site's languages may have homes in folders, and its top none. Hugo heads its totals with "EN | PT-BR", or "EN │ PT - BR". */
const languagesIn = (printed: string): string[] =>
  /^ +[|│](.*)\n *[-─]+[+┼]/m.exec(printed)?.[1]?.toLowerCase().replaceAll(" ", "").split(/[|│]/) ?? [];

export const pagesOf = (files: readonly string[]): number => files.filter((path) => /\.html?$/i.test(path)).length;

/** What the generator wrote; the hash of each file. */
export type Build = Tree & { readonly hashes: ReadonlyMap<string, Hashed> };

const notUtf8 = (path: string): string => `Hugo wrote a name that is not UTF-8: ${listed([path])}. Rename it.`;

/** Bytes that a pointer of Git LFS takes; few other files have that size. */
const ofPointer = { least: 120, most: 150 } as const;

/** Reads no more than a release may have: each of many links to one file, or a sparse file, may look as large. */
export function lookAt(out: string, most: number): { readonly found: Build; readonly pointers: readonly string[] } {
  try {
    const hashes = new Map<string, Hashed>();
    const pointers: string[] = [];
    let bytes = 0;
    const admit = (size: number): void => {
      bytes += onDisk(size);
      if (bytes <= most) return;
      throw rejected(
        `the site takes more than the ${mebibytes(most)} MiB on the disk that it may take. Raise hooks[].site.limits.releaseMiB.`,
      );
    };
    const found = walk(out, few(`Hugo wrote ${tooMany}. Make the site smaller.`), (path, at) => {
      const built = hashed(at, admit);
      if (hashes.has(path)) throw rejected(notUtf8(path));
      hashes.set(path, built);
      if (built.size >= ofPointer.least && built.size <= ofPointer.most && isPointer(at)) pointers.push(path);
    });
    return { found: { ...found, hashes }, pointers };
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT") throw error;
    throw rejected(notUtf8(String(path)));
  }
}
