/** Ends the generator or git where the site takes too much of the disk, or the reserve is reached (decision 021). */
import { setTimeout as sleep } from "node:timers/promises";
import { printable } from "../../printable.ts";
import { uptime } from "../clock.ts";
import { isUnder } from "../files.ts";
import type { Places } from "../places.ts";
import { mebibytes, rejected, Setback } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";
import { freeOf, isLess, measure, reserveReached, shares } from "./disk.ts";

type Limits = Pick<BuilderSettings["limits"], "releaseBytes">;

const pause = 200; // milliseconds between two walks; a walk that takes long has four times as long after it
const often = 50; // milliseconds between two looks at the file systems, of 20 µs

/** Calls `end` once at most, and never after the returned function was called. */
export function watchDisk({ releaseBytes }: Limits, places: Places, end: (setback: Setback) => void): () => void {
  let watching = true;
  const over = (setback: Setback) => {
    if (!watching) return;
    stop();
    end(setback);
  };
  // The generator's /tmp and /var/tmp are the host's own. Where another program has filled them, a build may go on.
  const disks = [places.site, "/tmp", "/var/tmp"].flatMap((path) => {
    const { free, reserve } = freeOf(path) ?? {};
    if (!free || !reserve) return [];
    const bytes = Math.min(reserve.bytes, free.bytes / 2);
    return [{ path, least: { bytes, inodes: Math.min(reserve.inodes, free.inodes / 2) } }];
  });
  const timer = setInterval(() => {
    for (const { path, least } of disks) {
      const found = freeOf(path);
      if (found && isLess(found.free, least)) over(reserveReached(path, least));
    }
  }, often);
  const stop = () => {
    watching = false;
    clearInterval(timer);
  };
  const walks = async () => {
    // Room was made before the run: the releases take no more than that, and are measured only if it matters.
    let most = (shares.whileWriting - shares.beforeRun) * releaseBytes;
    let isExact = false;
    let closed: ReadonlySet<string> = new Set();
    const isGenerators = (folder: string) =>
      [places.out, places.cache, places.fetched].some((top) => isUnder(folder, top));
    for (let took = 0; watching; ) {
      await sleep(Math.max(pause, 4 * took), undefined, { ref: false });
      if (!watching) return;
      const from = uptime();
      let found = await measure(places.work, most, () => watching);
      if (found.bytes > most && !isExact) {
        isExact = true;
        most = shares.whileWriting * releaseBytes - (await measure(places.releases)).bytes;
        found = await measure(places.work, most, () => watching);
      }
      if (found.bytes > most) over(tooMuch(shares.whileWriting * releaseBytes));
      // A program may open a folder after it has made it: only one that was closed at the walk before, too.
      const still = [...found.closed].find((folder) => closed.has(folder) && isGenerators(folder));
      if (still !== undefined) over(hidden(still));
      closed = found.closed;
      took = uptime() - from;
    }
  };
  walks().catch((error: Error) => over(rejected(`the folders of the site cannot be measured: ${error.message}`)));
  return stop;
}

/** The push may need that much, or be in a clone that earlier ones filled. */
export class TooMuch extends Setback {}

const tooMuch = (bytes: number): Setback =>
  new TooMuch(
    "rejected",
    `the site wrote more than it may: clone, checkout, dependencies, cache, the build's output and the releases take more than ${mebibytes(bytes)} MiB on the disk, ${shares.whileWriting} times hooks[].site.limits.releaseMiB. Make the site smaller, or raise it.`,
  );

const hidden = (folder: string): Setback =>
  rejected(`the build closed the folder ${printable(folder, 200)}, so its size is unknown. Leave it open to others.`);
