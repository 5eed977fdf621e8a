import type { BuilderSettings, exits } from "../builder/settings.ts";

/** Why a fetch ends without what it is to bring; the message is for a person who pushes. */
export class Fault extends Error {
  readonly kind: keyof typeof exits;
  constructor(kind: keyof typeof exits, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Reads the files in `wanted`, and fills the empty folder `fetched`. Throws Fault. */
export type Bring = (
  wanted: string,
  fetched: string,
  settings: Pick<BuilderSettings, "fetcher"> & {
    readonly limits: Pick<BuilderSettings["limits"], "releaseBytes" | "seconds">;
  },
  /** Whether there may be one more path. */
  fits?: (path: string) => boolean,
) => Promise<void>;
