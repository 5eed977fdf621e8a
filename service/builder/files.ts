/** What the builder does with files. Nothing here follows a symbolic link. */
import {
  chmodSync,
  closeSync,
  type Dirent,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** Makes the names in a folder outlive a power cut. */
export function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** The whole text or the former file, also after a power cut. */
export function writeWhole(path: string, text: string, mode = 0o644): void {
  const temporary = `${path}.new`;
  remove(temporary);
  const descriptor = openSync(temporary, "wx", mode);
  try {
    writeFileSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, path);
  syncFolder(dirname(path));
}

const gone = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === "ENOENT";

/** undefined where it throws ENOENT. */
export function ifThere<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if (gone(error)) return undefined;
    throw error;
  }
}

/** A file, a link, or a folder and all below it, read-only folders included; what is not there is no fault. */
export function remove(path: string): void {
  const stat = ifThere(() => lstatSync(path));
  if (!stat) return;
  if (stat.isDirectory()) removeFolder(path);
  else ifThere(() => unlinkSync(path));
}

function removeFolder(path: string): void {
  const mode = lstatSync(path).mode & 0o700;
  // A folder hugo made belongs to another user, who opened it to us: its mode is not ours to set.
  if (mode !== 0o700)
    try {
      chmodSync(path, 0o755);
    } catch {}
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const child = join(path, entry.name);
    if (entry.isDirectory()) removeFolder(child);
    else ifThere(() => unlinkSync(child));
  }
  ifThere(() => rmdirSync(path));
}

export type Found = {
  readonly folders: readonly string[];
  readonly files: readonly { readonly path: string; readonly size: number }[];
  readonly links: readonly string[];
  /** Pipes, sockets, devices. */
  readonly others: readonly string[];
};

/**
 * Everything below a folder, by path relative to it, in the order of names; what `passes` is true of is not even looked
 * into. Throws ENOENT for a name not in UTF-8.
 */
export function walk(root: string, sizes = true, passes = (_path: string): boolean => false): Found {
  const found = {
    folders: [] as string[],
    files: [] as { path: string; size: number }[],
    links: [] as string[],
    others: [] as string[],
  };
  const byName = (a: Dirent, b: Dirent) => (a.name < b.name ? -1 : 1);
  const enter = (folder: string): void => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true }).sort(byName)) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (passes(path)) continue;
      if (entry.isDirectory()) {
        found.folders.push(path);
        enter(path);
      } else if (entry.isSymbolicLink()) found.links.push(path);
      else if (entry.isFile()) found.files.push({ path, size: sizes ? lstatSync(join(root, path)).size : 0 });
      else found.others.push(path);
    }
  };
  enter("");
  return found;
}

/** Whether a path is this one or below it. */
export const isUnder = (path: string, top: string): boolean => path === top || path.startsWith(`${top}/`);
