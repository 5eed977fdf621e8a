/**
 * The spool: one file per delivery, <spool>/<hook>/<delivery id>.json, which is whole or absent, also after a power cut.
 * The receiver writes it under a dot name, which the builder's .path unit ignores, syncs it, renames it and syncs the
 * folder; only then does it answer 202.
 *
 * GitHub's "Redeliver" keeps the id: it replaces a file that still waits, and makes a new one after a build took it.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Push } from "../git-hosts/index.ts";

/** What a spool file holds. */
export type Spooled = Push & {
  readonly delivery: string;
  readonly hook: string;
  readonly event: "push";
  /** ISO 8601, UTC. */
  readonly received: string;
};

/** Fails with the disk's error or with SpoolFull. */
export type Spool = (entry: Spooled) => Promise<void>;

/**
 * Files that may wait for one hook: 40 MB at 4 KiB each. A sender can repeat a captured delivery under any id, and must
 * not use up the disk's inodes.
 */
const mostPending = 10_000;

export class SpoolFull extends Error {}

/** Creates missing folders and removes the files that a power cut left half written. `recount`: milliseconds. */
export function openSpool(folder: string, hooks: readonly string[], most = mostPending, recount = 1_000): Spool {
  const waiting = new Map(hooks.map((hook) => [hook, { files: tidied(join(folder, hook)), counted: 0 }]));

  return async (entry) => {
    const place = join(folder, entry.hook);
    const known = waiting.get(entry.hook)!;
    // The builder removes files unseen, so a full spool is counted again, once a second: 10,000 names take 6 ms.
    if (known.files >= most && performance.now() - known.counted >= recount) {
      known.counted = performance.now();
      known.files = (await readdir(place)).length;
    }
    if (known.files >= most) throw new SpoolFull();
    known.files += 1;
    const temporary = join(place, `.${randomUUID()}.tmp`);
    try {
      await using(temporary, "wx", async (file) => {
        // The unit's UMask=0077 would hide the file from the builder, which reads it as the folder's group.
        await file.chmod(0o640);
        await file.writeFile(`${JSON.stringify(entry)}\n`);
        await file.sync();
      });
      await rename(temporary, join(place, `${entry.delivery}.json`));
    } catch (error) {
      await unlink(temporary).catch(() => {});
      throw error;
    }
    await using(place, "r", (directory) => directory.sync());
  };
}

async function using(path: string, flags: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o640);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}

/** Returns how many files wait in the folder. */
function tidied(place: string): number {
  try {
    mkdirSync(place, { recursive: true, mode: 0o770 });
    const names = readdirSync(place);
    for (const name of names) if (/^\..*\.tmp$/.test(name)) rmSync(join(place, name));
    return names.length;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(
      `${place} can't be used (${code}): \`systemd-tmpfiles --create\` makes it, owned by the receiver's user`,
    );
  }
}
