/** A hook's folder in the spool. Other members of the spool's group may have put anything into it. */
import { type Dirent, mkdirSync, opendirSync, unlinkSync } from "node:fs";
import { join } from "node:path";

/** Files that may wait for a hook: 40 MB. */
export const mostWaiting = 10_000;

/** Returns how many files wait, at most `most`: a folder may hold millions. */
export function countWaiting(folder: string, most: number, visit: (entry: Dirent) => void = () => {}): number {
  const names = opendirSync(folder);
  let files = 0;
  try {
    for (let entry = names.readSync(); entry && files < most; entry = names.readSync(), files++) visit(entry);
  } finally {
    names.closeSync();
  }
  return files;
}

/**
 * Makes a missing folder, and removes files that a power cut left half written. Returns how many files wait, or `most`
 * where the folder cannot be used, so that the next delivery counts again.
 */
export function tidied(folder: string, most: number): number {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o770 });
    return countWaiting(folder, most, (entry) => {
      if (entry.isFile() && /^\..*\.tmp$/.test(entry.name)) unlinkSync(join(folder, entry.name));
    });
  } catch {
    return most;
  }
}

/** Why the folder cannot be used; undefined where the error is about something else. */
export function folderFault(folder: string, error: unknown): string | undefined {
  const { code = "" } = error as NodeJS.ErrnoException;
  if (!/^(EACCES|EEXIST|ENOENT|ENOTDIR|EPERM)$/.test(code)) return undefined;
  return `${folder} cannot be used (${code}). Run systemd-tmpfiles --create, which makes it.`;
}
