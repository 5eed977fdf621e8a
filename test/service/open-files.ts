/** Descriptors that this process holds. */
import { existsSync, readdirSync, readlinkSync } from "node:fs";

export const openIn = (folder: string): string[] =>
  readdirSync("/proc/self/fd")
    .map((descriptor) => `/proc/self/fd/${descriptor}`)
    // Without the descriptor by which the list was read.
    .filter((path) => existsSync(path) && readlinkSync(path).startsWith(`${folder}/`));
