/** From status.json, which a hostile repository may have made a pipe that never ends, a link to a secret, any text. */
import * as v from "valibot";
import { beginningOf } from "../builder/files.ts";
import { tried } from "../tried.ts";

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
export const readBuilds = (path: string): Builds | undefined =>
  tried(() => v.parse(shape, JSON.parse(beginningOf(path, largest))));
