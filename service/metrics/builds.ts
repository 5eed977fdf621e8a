/** From status.json, which a hostile repository may have made a pipe that never ends, a link to a secret, any text. */
import { constants, open } from "node:fs/promises";
import * as v from "valibot";

const largest = 256 << 10; // bytes; usual are 3 KiB

export const results = ["published", "nothing", "failed", "rejected", "rolled back"] as const;
export type Result = (typeof results)[number];

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const shape = v.object({
  runs: v.record(v.picklist(results), count),
  succeeded: v.nullable(v.pipe(v.string(), v.isoTimestamp())),
  failing: v.optional(v.object({ attempts: count })),
});

export type Builds = v.InferOutput<typeof shape>;

/** undefined before the first build, and for a file that the builder did not write. */
export async function readBuilds(path: string): Promise<Builds | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      // A read at a position fails in a pipe and in a folder.
      const { buffer, bytesRead } = await file.read(Buffer.alloc(largest + 1), 0, largest + 1, 0);
      if (bytesRead > largest) return undefined;
      return v.parse(shape, JSON.parse(buffer.toString("utf8", 0, bytesRead)));
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}
