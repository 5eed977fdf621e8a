/** The release this run of the suite is on; test/hosts/run.ts says it. */
import type { Release } from "./lab/image.ts";

export const release = (process.env.PUSHGATE_RELEASE ?? "bookworm") as Release;
