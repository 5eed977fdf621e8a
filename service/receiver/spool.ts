/**
 * The spool: one file a delivery in <spool>/<hook>/, whole or not there at all, also after a power cut. It is written
 * under a dot name, which a .path unit does not see; synced, renamed, and the folder synced; only then is it a 202.
 *
 * The file's name is the delivery's id. GitHub's "Redeliver" keeps the id: while the first is pending, the second
 * replaces it; once a build has taken the first, the second is a new file and builds again, as the button promises.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { open, readdir, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Push } from "./delivery.ts";

/** What a spool file holds. */
export type Spooled = Push & {
  readonly delivery: string;
  readonly hook: string;
  readonly event: "push";
  /** ISO 8601, UTC. */
  readonly received: string;
};

/** Rejects where the disk refuses. */
export type Spool = (entry: Spooled) => Promise<void>;

/**
 * Files a hook may have waiting. A captured delivery can be sent again under any id, and must not fill the disk's
 * inodes: 10,000 of 4 KiB are 40 MB. One waiting file builds as well as ten thousand.
 */
const mostPending = 10_000;

/** Milliseconds between two looks at a full spool. */
const everySecond = 1_000;

export class SpoolFull extends Error {}

/** Makes missing folders, removes what a power cut left half written. Throws where a folder is not ours to read. */
export function openSpool(folder: string, hooks: readonly string[], most = mostPending, recount = everySecond): Spool {
  const waiting = new Map(hooks.map((hook) => [hook, { files: tidied(join(folder, hook)), counted: 0 }]));

  return async (entry) => {
    const place = join(folder, entry.hook);
    const known = waiting.get(entry.hook) ?? { files: 0, counted: 0 };
    waiting.set(entry.hook, known);
    // Counted in memory, and looked up only when that says full, as the builder's removals are not seen from here; and
    // not at each refusal: to list 10,000 names takes 6 ms of a core.
    if (known.files >= most) {
      if (performance.now() - known.counted < recount) throw new SpoolFull();
      known.counted = performance.now();
      known.files = (await readdir(place)).length;
      if (known.files >= most) throw new SpoolFull();
    }
    known.files += 1;
    const temporary = join(place, `.${randomUUID()}.tmp`);
    try {
      const file = await open(temporary, "wx", 0o640);
      try {
        // The unit's UMask=0077 would keep it from the builder, which reads it through the folder's group.
        await file.chmod(0o640);
        await file.writeFile(`${JSON.stringify(entry)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, join(place, `${entry.delivery}.json`));
    } catch (error) {
      await unlink(temporary).catch(() => {});
      throw error;
    }
    const directory = await open(place, "r");
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  };
}

/** How many files are in there. */
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
