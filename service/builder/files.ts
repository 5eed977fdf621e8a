/**
 * But for `withFile` and `syncFolder` no operation follows a symbolic link, also where another process exchanges a folder
 * for a link meanwhile: a folder is opened once, and what is below it is reached through that descriptor.
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import { tried } from "../tried.ts";
import { rejected } from "./run/setback.ts";

type Path = string | Buffer;

export function withFile<T>(path: Path, flags: string | number, use: (descriptor: number) => T, mode?: number): T {
  const descriptor = fs.openSync(path, flags, mode);
  try {
    return use(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Follows no link, and waits for no pipe. */
export const reading = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

/** The beginning of a file as text, "" of none. A read at a position fails in a pipe and in a folder. */
export function beginningOf(path: string, mostBytes: number): string {
  const bytes = Buffer.alloc(mostBytes);
  const read = (descriptor: number) => fs.readSync(descriptor, bytes, 0, mostBytes, 0);
  const length = ifThere(() => withFile(path, reading, read)) ?? 0;
  return bytes.toString("utf8", 0, length);
}

const pathOnly = 0o10000000; // O_PATH of Linux, which Node does not name: opens a folder whatever its mode is
const folderItself = pathOnly | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW;

/** Calls `use` with a path that leads into this folder, whatever takes its place meanwhile. Throws on a link. */
export function within<T>(folder: Path, use: (here: string) => T): T {
  // Only tests run elsewhere.
  if (process.platform !== "linux") return use(`${folder}`);
  return withFile(folder, folderItself, (descriptor) => {
    const here = `/proc/self/fd/${descriptor}`;
    try {
      return use(here);
    } catch (error) {
      const { path } = error as NodeJS.ErrnoException;
      if (`${path}`.startsWith(here)) Object.assign(error as Error, { path: folder + `${path}`.slice(here.length) });
      throw error;
    }
  });
}

/** As `within`, for a folder below another one, whose relative path may be "". */
export function below<T>(folder: string, path: string, use: (here: string) => T): T {
  const [first = "", ...rest] = path.split("/");
  return within(folder, (here) => (first === "" ? use(here) : below(`${here}/${first}`, rest.join("/"), use)));
}

/** Makes the names in a folder survive a power cut. */
export const syncFolder = (folder: string): void => withFile(folder, "r", fs.fsyncSync);

/** After a power cut the file has its whole new text or its former one. `next`: its name until it is whole. */
export function writeWhole(path: string, text: string, mode = 0o644, next = `${path}.new`): void {
  remove(next);
  const write = (descriptor: number) => {
    fs.writeFileSync(descriptor, text);
    fs.fsyncSync(descriptor);
  };
  withFile(next, "wx", write, mode);
  fs.renameSync(next, path);
  syncFolder(dirname(path));
}

export function ifThere<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Names of numbered files, in the order of their numbers. */
export const numberedName = (number: number): string => `${number}.json`.padStart(14, "0");
export const isNumberedName = (name: string): boolean => /^\d{9}\.json$/.test(name);

export const readText = (path: string): string | undefined => ifThere(() => fs.readFileSync(path, "utf8"));

export const readJson = (path: string) => tried(() => JSON.parse(fs.readFileSync(path, "utf8")));

/** Removes a file, a link, or a folder with all below it, read-only folders included. A missing path is no error. */
export function remove(path: Path): void {
  const stat = ifThere(() => fs.lstatSync(path));
  if (!stat?.isDirectory()) return void ifThere(() => fs.unlinkSync(path));
  within(path, (here) => {
    // Unless it is of another account, whose unit has opened it for the builder.
    if ((stat.mode & 0o700) !== 0o700) tried(() => fs.chmodSync(here, 0o755));
    for (const name of eachName(here)) remove(Buffer.concat([Buffer.from(`${here}/`), name]));
  });
  ifThere(() => fs.rmdirSync(path));
}

/** Gives an entry of the folder a name that counts no more, and that no other account can guess. Returns its new path. */
export function moveAside(folder: string, path: Path): string {
  const aside = fs.mkdtempSync(`${folder}/.aside-`);
  try {
    fs.renameSync(path, aside);
  } catch (error) {
    fs.rmdirSync(aside);
    throw error;
  }
  return aside;
}

/** Bytes of a folder that has a few thousand entries at most on the file systems that Debian installs. */
const small = 64 << 10;

/** One after the other: there may be millions. */
export function* eachEntry(folder: Path, encoding: BufferEncoding = "utf8"): Generator<fs.Dirent> {
  // To make a Dir takes Node longer than to read a small folder.
  if (fs.statSync(folder).size <= small) return yield* fs.readdirSync(folder, { withFileTypes: true, encoding });
  const opened = fs.opendirSync(folder, { encoding });
  try {
    for (let entry = opened.readSync(); entry; entry = opened.readSync()) yield entry;
  } finally {
    opened.closeSync();
  }
}

/** The names in a folder as bytes, which Node 18 requires where the path is bytes. */
export function* eachName(folder: Path): Generator<Buffer> {
  for (const { name } of eachEntry(folder, "buffer" as BufferEncoding)) yield Buffer.from(name);
}

/** Of a commit, a build or a release: more than a site has, and no more than a builder of 512 MiB holds three times. */
export const most = { entries: 100_000, pathBytes: 8 << 20 } as const;
export const tooMany = `more than ${most.entries / 1_000},000 files and folders, or paths of more than ${most.pathBytes >> 20} MiB`;

/** Whether there may be one more path. Bytes count as in a manifest, which is JSON. */
export function counting(): (path: string) => boolean {
  let [entries, bytes] = [0, 0];
  return (path) => {
    entries += 1;
    bytes += Buffer.byteLength(JSON.stringify(path));
    return entries <= most.entries && bytes <= most.pathBytes;
  };
}

/** For `walk` in a folder that others fill: rejects one entry too many for this reason. */
export function few(reason: string, skip = (_path: string) => false): (path: string) => boolean {
  const fits = counting();
  return (path) => {
    if (skip(path)) return true;
    if (!fits(path)) throw rejected(reason);
    return false;
  };
}

/** Paths relative to the folder; `others` are pipes, sockets and devices. */
export type Tree = Readonly<Record<"folders" | "files" | "links" | "others", readonly string[]>>;

/** All below a folder in the order of names, but for what `skip` names. `look` gets each file, and where to open it. */
export function walk(root: string, skip = (_path: string) => false, look = (_path: string, _at: string) => {}): Tree {
  const found = { folders: [] as string[], files: [] as string[], links: [] as string[], others: [] as string[] };
  const enter = (folder: string, here: string): void => {
    const pathOf = ({ name }: fs.Dirent) => (folder === "" ? name : `${folder}/${name}`);
    const entries: fs.Dirent[] = [];
    for (const entry of eachEntry(here)) if (!skip(pathOf(entry))) entries.push(entry);
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = pathOf(entry);
      const kind = entry.isSymbolicLink() ? "links" : entry.isFile() ? "files" : "others";
      found[entry.isDirectory() ? "folders" : kind].push(path);
      if (entry.isDirectory()) within(`${here}/${entry.name}`, (inner) => enter(path, inner));
      else if (entry.isFile()) look(path, `${here}/${entry.name}`);
    }
  };
  within(root, (here) => enter("", here));
  return found;
}

export const isUnder = (path: string, top: string): boolean => path === top || path.startsWith(`${top}/`);
