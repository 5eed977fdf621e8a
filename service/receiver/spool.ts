/**
 * The spool: one file <spool>/<hook>/<delivery id>.json per delivery, whole or absent, also after a power cut. The
 * builder's .path unit ignores its dot name until the rename. GitHub's "Redeliver" keeps the id, and replaces the file.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { type FileHandle, open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Push } from "../git-hosts/index.ts";

/** What a spool file holds. `received`: ISO 8601, UTC. */
export type Spooled = Push & Readonly<{ delivery: string; hook: string; event: "push"; received: string }>;

/** Fails with the disk's error or with SpoolFull. */
export type Spool = (entry: Spooled) => Promise<void>;

export class SpoolFull extends Error {}

/**
 * Creates missing folders, and removes files that a power cut left half written. `most`: files that may wait for a hook,
 * 40 MB, so that a captured delivery, repeated under other ids, does not fill the disk. `recount`: milliseconds.
 */
export function openSpool(folder: string, hooks: readonly string[], most = 10_000, recount = 1_000): Spool {
  const waiting = new Map(hooks.map((hook) => [hook, { files: tidied(join(folder, hook)), counted: 0 }]));

  return async (entry) => {
    const place = join(folder, entry.hook);
    const known = waiting.get(entry.hook)!;
    // The receiver does not see the builder remove files. To count 10,000 takes 6 ms, so it counts once a second.
    if (known.files >= most && performance.now() - known.counted >= recount) {
      known.counted = performance.now();
      known.files = (await readdir(place)).length;
    }
    if (known.files >= most) throw new SpoolFull();
    known.files += 1;
    const temporary = join(place, `.${randomUUID()}.tmp`);
    try {
      await using(temporary, "wx", async (file) => {
        await file.chmod(0o640); // the unit's UMask=0077 would hide it from the builder, which is in the folder's group
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
  await use(file).finally(() => file.close());
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
    throw new Error(`${place} can't be used (${code}): \`systemd-tmpfiles --create\` makes it, owned by the receiver`);
  }
}
