/** What a site takes and may take on the disk, and what every build leaves free (decision 021). */
import { lstatSync, statfsSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { uptime } from "../clock.ts";
import { eachName, ifThere } from "../files.ts";
import { failed, mebibytes, type Setback } from "../run/setback.ts";

/** Shares of `site.limits.releaseMiB`: a build's output, its release, the published one, and one for all the rest. */
export const shares = {
  ofSite: 4,
  /** While the generator or git writes: a release is made only after that. */
  whileWriting: 3,
  /** Before a run: the generator's output and the release made of it need the other two. */
  beforeRun: 2,
  ofCache: 1 / 4,
} as const;

/** Bytes that an entry takes at least, so that a build of empty files is limited, too. */
const block = 4096;

export const onDisk = (size: number): number => Math.ceil(Math.max(size, 1) / block) * block;

/** A twentieth of the file system, 1 GiB at most: of 2 GB a second a build writes 0.5 GB before it is ended. */
const part = 20;
const mostBytes = 1 << 30;
const mostInodes = mostBytes >> 14; // ext4 makes an inode for each 16 KiB

export type Free = { readonly bytes: number; readonly inodes: number };

/** `inodes` is infinite where the file system makes them as they are needed. undefined where there is no such path. */
export function freeOf(path: string): { readonly free: Free; readonly reserve: Free } | undefined {
  const found = ifThere(() => statfsSync(path));
  if (!found) return undefined;
  const { bavail, blocks, bsize, ffree, files } = found;
  return {
    free: { bytes: bavail * bsize, inodes: files === 0 ? Number.POSITIVE_INFINITY : ffree },
    reserve: { bytes: Math.min((blocks * bsize) / part, mostBytes), inodes: Math.min(files / part, mostInodes) },
  };
}

export const isLess = (free: Free, least: Free): boolean => free.bytes < least.bytes || free.inodes < least.inodes;

export const reserveReached = (path: string, { bytes, inodes }: Free): Setback =>
  failed(
    `the disk is full. Free space on the file system of ${path}, or make the site smaller: a build leaves ${mebibytes(bytes)} MiB and ${Math.ceil(inodes)} inodes of it free.`,
  );

/** Throws where a file of this size would leave less than the reserve. */
export function needRoom(path: string, bytes = 0): void {
  const found = freeOf(path);
  if (found && isLess({ ...found.free, bytes: found.free.bytes - bytes }, found.reserve))
    throw reserveReached(path, found.reserve);
}

const slash = Buffer.from("/");
const slice = 5; // milliseconds after which other work of this process goes on

/** Bytes of the folders that are still to be measured: a build may make 1,500,000 in one, with names of 255 bytes. */
const mostPending = 32 << 20;

/** Blocks below a folder, up to `most`, while `going`. `closed`: folders that cannot be read, so of unknown size. */
export async function measure(folder: string, most = Number.POSITIVE_INFINITY, going = () => true) {
  const closed = new Set<string>();
  const folders = [Buffer.from(folder)]; // bytes, as a build may give any name
  let [bytes, pending] = [0, 0];
  let from = uptime();
  for (let at = folders.pop(); at !== undefined && bytes <= most; at = folders.pop())
    try {
      pending -= at.length + 100;
      for (const name of eachName(at)) {
        const path = Buffer.concat([at, slash, name]);
        const stat = ifThere(() => lstatSync(path));
        if (stat) bytes += Math.max(stat.blocks * 512, block) / (stat.isDirectory() ? 1 : stat.nlink);
        if (stat?.isDirectory()) {
          folders.push(path);
          pending += path.length + 100;
          if (pending > mostPending) return { bytes: Number.POSITIVE_INFINITY, closed };
        }
        if (bytes > most) break;
        if (uptime() - from < slice) continue;
        await setImmediate();
        if (!going()) return { bytes, closed };
        from = uptime();
      }
    } catch (error) {
      const { code = "", syscall } = error as NodeJS.ErrnoException;
      if (syscall === undefined) throw error;
      // A build renames and removes while it is measured.
      if (code !== "ENOENT" && code !== "ENOTDIR") closed.add(at.toString());
    }
  return { bytes, closed };
}
