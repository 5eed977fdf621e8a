/** Files that Git LFS keeps elsewhere: the builder does not fetch them, and the checkout has a pointer in place of each. */
import { join } from "node:path";
import { beginningOf, ifThere, isUnder } from "../files.ts";
import { listed } from "../run/setback.ts";
import { type Given, mounted } from "./content.ts";

const first = "version https://git-lfs.github.com/spec/v1\n";

/** Of those that Hugo reads: its unit printed the folders. */
export function pointerWarnings(clone: string, files: readonly string[], printed: string, given: Given): string[] {
  // A name that is not UTF-8 is another one as text.
  const begins = (path: string, mostBytes: number) => ifThere(() => beginningOf(join(clone, path), mostBytes)) ?? "";
  if (!files.some((path) => /(^|\/)\.gitattributes$/.test(path) && begins(path, 64 << 10).includes("filter=lfs")))
    return [];
  const folders = mounted(printed, given);
  const read = files.filter((path) => folders.some((folder) => folder === "" || isUnder(path, folder)));
  const pointers = read.filter((path) => begins(path, first.length) === first);
  if (pointers.length === 0) return [];
  return [
    `Git LFS is not fetched, and these files are its pointers: ${listed(pointers)}. Commit the files themselves.`,
  ];
}
