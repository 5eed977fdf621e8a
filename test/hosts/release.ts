/** The Debian release of this run of the suite, which test/hosts/run.ts sets. */
import type { Release } from "./lab/image.ts";

export const release = (process.env.PUSHGATE_RELEASE ?? "bookworm") as Release;

/** run.ts sets it where the command line names a release: each file then runs, also one that `only` gives to the other. */
export const runsEachFile = process.env.PUSHGATE_EACH_FILE === "1";
