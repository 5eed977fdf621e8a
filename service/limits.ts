/** The receiver's limits, as keys of the configuration, and what follows. `form` completes "Use …" in a fault. */
import * as v from "valibot";
import { whole } from "./shapes.ts";

export const amount = (min: number, max: number, usual: number, what: string, description: string) => {
  const form = `${what} from ${min} to ${max}, such as ${usual}`;
  return v.optional(v.pipe(whole(min, max), v.metadata({ form, description })), usual);
};

export const receiverLimits = v.strictObject({
  // Pushes of up to 457 kB were seen, and GitHub itself stops at 25 MB.
  bodyBytes: amount(1 << 10, 25 << 20, 5 << 20, "a number of bytes", "Size of a delivery's body."),
  rejectionsPerMinute: amount(1, 10_000, 60, "a whole number", "Rejected requests a minute, by source and hook."),
  concurrentPerSource: amount(1, 1_000, 32, "a whole number", "Requests that one source may have open."),
});

export type ReceiverLimits = Readonly<v.InferOutput<typeof receiverLimits>>;

/** Bytes that bodies may hold: one, those of a source (32 of the largest push seen: 16 MiB), those of all sources. */
export function openBytes({ bodyBytes: ofBody }: ReceiverLimits): Record<"ofBody" | "ofSource" | "ofAll", number> {
  const ofSource = Math.max(4 * ofBody, 16 << 20);
  return { ofBody, ofSource, ofAll: 4 * ofSource };
}

/** MiB that the receiver needs: an open body is there twice while its buffer grows; Node and its code take about 100. */
export const receiverMemoryMiB = (limits: ReceiverLimits): number =>
  192 + Math.ceil((2 * openBytes(limits).ofAll) / (1 << 20));
