/** One file a delivery, whole or absent, also after a power cut: the builder ignores names with a leading dot. */
import { randomUUID } from "node:crypto";
import { type Dirent, mkdirSync, unlinkSync } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { eachEntry } from "../builder/files.ts";
import type { Push } from "../git-hosts/payload.ts";
import { tried } from "../tried.ts";

/** What a spool file holds. `received`: ISO 8601, UTC. */
export type Spooled = Push & Readonly<{ delivery: string; hook: string; event: "push"; received: string }>;

export type Spool = ReturnType<typeof openSpool>;

export class SpoolFault extends Error {}

/** Files that may wait for a hook: 40 MB. */
export const mostWaiting = 10_000;

/** `most` files may wait: a captured delivery under other ids must not fill the disk. `recount`: milliseconds. */
export function openSpool(folder: string, hooks: readonly string[], most = mostWaiting, recount = 1_000) {
  const waiting = new Map(hooks.map((hook) => [hook, { files: tidied(join(folder, hook), most), counted: -recount }]));

  /** Fails with the disk's error or with SpoolFault. */
  return async (entry: Spooled): Promise<void> => {
    const place = join(folder, entry.hook);
    const known = waiting.get(entry.hook)!;
    const temporary = join(place, `.${randomUUID()}.tmp`);
    try {
      // The receiver does not see the builder remove files. To count 10,000 takes 6 ms, so it counts once a second.
      if (known.files >= most && performance.now() - known.counted >= recount) {
        known.files = countWaiting(place, most);
        known.counted = performance.now();
      }
      if (known.files >= most) throw new SpoolFault("the spool is full");
      known.files += 1;
      await using(temporary, "wx", async (file) => {
        await file.chmod(0o640); // the unit's UMask=0077 would hide it from the builder, which is in the folder's group
        await file.writeFile(`${JSON.stringify(entry)}\n`);
        await file.sync();
      });
      await rename(temporary, join(place, `${entry.delivery}.json`));
      await using(place, "r", (directory) => directory.sync());
    } catch (error) {
      await unlink(temporary).catch(() => {});
      const fault = folderFault(place, error);
      throw fault === undefined ? error : new SpoolFault(fault);
    }
  };
}

async function using(path: string, flags: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o640);
  await use(file).finally(() => file.close());
}

/** Returns how many files wait, at most `most`: a folder may hold millions. */
export function countWaiting(folder: string, most: number, visit: (entry: Dirent) => void = () => {}): number {
  let files = 0;
  for (const entry of eachEntry(folder)) {
    if (files === most) break;
    visit(entry);
    files += 1;
  }
  return files;
}

/** Removes what a power cut left half written. Returns how many wait; `most` where the folder cannot be used. */
const tidied = (folder: string, most: number): number =>
  tried(() => {
    mkdirSync(folder, { recursive: true, mode: 0o770 });
    return countWaiting(folder, most, (entry) => {
      if (entry.isFile() && /^\..*\.tmp$/.test(entry.name)) unlinkSync(join(folder, entry.name));
    });
  }) ?? most;

export function folderFault(folder: string, error: unknown): string | undefined {
  const { code = "" } = error as NodeJS.ErrnoException;
  if (!/^(EACCES|EEXIST|ENOENT|ENOTDIR|EPERM)$/.test(code)) return undefined;
  return `${folder} cannot be used (${code}). Run systemd-tmpfiles --create, which makes it.`;
}
