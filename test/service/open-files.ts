/** Descriptors that this process holds. */
import { readdirSync, readlinkSync } from "node:fs";

/** What is open of a folder. */
export const openIn = (folder: string): string[] =>
  readdirSync("/proc/self/fd")
    .map(linkOf)
    .filter((path) => path.startsWith(`${folder}/`));

/** "" of the descriptor by which the list was read. */
function linkOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return "";
  }
}
