/** The Debian release of this run of the suite, which test/hosts/run.ts sets. */
import type { Release } from "./lab/image.ts";

export const release = (process.env.PUSHGATE_RELEASE ?? "bookworm") as Release;
