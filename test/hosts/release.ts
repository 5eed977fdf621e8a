/** The Debian release of this run of the suite, which test/hosts/run.ts sets. */
import type { Release } from "./lab/image.ts";

export const release = (process.env.PUSHGATE_RELEASE ?? "bookworm") as Release;

/** A release that is named on the command line runs each file, also those that otherwise run on the other one only. */
export const runsEachFile = process.env.PUSHGATE_EACH_FILE !== undefined;
