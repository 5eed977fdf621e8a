/** File operations. None of them follows a symbolic link. */
import {
  chmodSync,
  closeSync,
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

export function withFile<T>(path: string, flags: string | number, use: (descriptor: number) => T, mode?: number): T {
  const descriptor = openSync(path, flags, mode);
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Makes the names in a folder survive a power cut. */
export const syncFolder = (folder: string): void => withFile(folder, "r", fsyncSync);

/** After a power cut the file has its whole new text or its former one. */
export function writeWhole(path: string, text: string, mode = 0o644): void {
  const next = `${path}.new`;
  remove(next);
  const write = (descriptor: number) => {
    writeFileSync(descriptor, text);
    fsyncSync(descriptor);
  };
  withFile(next, "wx", write, mode);
  renameSync(next, path);
  syncFolder(dirname(path));
}

/** undefined where the call throws ENOENT. */
export function ifThere<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Removes a file, a link, or a folder with all below it, read-only folders included. A missing path is no error. */
export function remove(path: string): void {
  const stat = ifThere(() => lstatSync(path));
  const folder = stat?.isDirectory() ?? false;
  if (folder && (stat!.mode & 0o700) !== 0o700)
    try {
      chmodSync(path, 0o755);
    } catch {
      // A folder that hugo made belongs to another account, whose unit has opened it for the builder.
    }
  for (const name of folder ? readdirSync(path) : []) remove(join(path, name));
  ifThere(() => (folder ? rmdirSync(path) : unlinkSync(path)));
}

/** Paths relative to the folder; `others` are pipes, sockets and devices. */
export type Found = Readonly<Record<"folders" | "files" | "links" | "others", readonly string[]>>;

/** Everything below a folder in the order of names, without paths that `skip` names and what is below them. */
export function walk(root: string, skip = (_path: string): boolean => false): Found {
  const found = { folders: [] as string[], files: [] as string[], links: [] as string[], others: [] as string[] };
  const enter = (folder: string): void => {
    const entries = readdirSync(join(root, folder), { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (skip(path)) continue;
      const kind = entry.isSymbolicLink() ? "links" : entry.isFile() ? "files" : "others";
      found[entry.isDirectory() ? "folders" : kind].push(path);
      if (entry.isDirectory()) enter(path);
    }
  };
  enter("");
  return found;
}

/** Whether a path is this one or below it. */
export const isUnder = (path: string, top: string): boolean => path === top || path.startsWith(`${top}/`);

/** Whether a path of a build is one of `site.keep` or below one. */
export const isKept = (path: string, keep: readonly string[]): boolean => keep.some((kept) => isUnder(path, kept));
