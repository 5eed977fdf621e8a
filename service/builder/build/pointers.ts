/** Pointers of Git LFS, which git has in place of files. The checkout brings those files that .gitattributes names. */
import { join } from "node:path";
import { beginningOf, isUnder } from "../files.ts";
import { listed, rejected } from "../run/setback.ts";
import { type Given, mounted } from "./content.ts";

const first = "version https://git-lfs.github.com/spec/v1\n";

// A file whose name is not UTF-8 is not there by its name as text.
export const isPointer = (path: string): boolean => beginningOf(path, first.length) === first;

export const pointersLeft = (paths: readonly string[]): string =>
  `these files are pointers of Git LFS: ${listed(paths)}. Name them in .gitattributes (git lfs track) and not in lfs.fetchexclude of .lfsconfig, or commit the files themselves.`;

/** Of those that Hugo reads: `mounts` has the folders. Throws Setback. */
export function rejectPointers(clone: string, files: readonly string[], mounts: string, given: Given): void {
  const names = (path: string) => beginningOf(join(clone, path), 64 << 10).includes("filter=lfs");
  if (!files.some((path) => /(^|\/)\.gitattributes$/.test(path) && names(path))) return;
  const folders = mounted(mounts, given);
  const read = files.filter((path) => folders.some((folder) => folder === "" || isUnder(path, folder)));
  const pointers = read.filter((path) => isPointer(join(clone, path)));
  if (pointers.length > 0) throw rejected(pointersLeft(pointers));
}
