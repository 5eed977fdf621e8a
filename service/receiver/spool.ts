/**
 * One file <spool>/<hook>/<delivery id>.json per delivery, whole or absent, also after a power cut: until it is whole, its
 * name begins with a dot, which the builder ignores. GitHub's "Redeliver" keeps the id, and replaces the file.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Push } from "../git-hosts/payload.ts";
import { countWaiting, folderFault, mostWaiting, tidied } from "../spool-folder.ts";

/** What a spool file holds. `received`: ISO 8601, UTC. */
export type Spooled = Push & Readonly<{ delivery: string; hook: string; event: "push"; received: string }>;

export type Spool = ReturnType<typeof openSpool>;

/** Its message is for the journal. */
export class SpoolFault extends Error {}

/**
 * While a folder cannot be used, the deliveries of its hook fail, and no others. `most`: files that may wait for a hook,
 * so that a captured delivery that comes again under other ids does not fill the disk. `recount`: milliseconds.
 */
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
