/**
 * The builder stays active between two runs: systemd and Node take 0.3 s to start one, with its sandbox and the agent
 * of its deploy key, and a push would wait for that. Where a builder ends, the .path unit starts another one for the
 * next marker.
 */
import { accessSync, constants, type FSWatcher, statSync, watch } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Places } from "../places.ts";
import { arrived } from "./markers.ts";

/** Milliseconds between two looks without an event: the kernel reports none for a folder that was removed. */
const often = 30_000;

/** True when a marker is there; false where this builder cannot see the next one. */
export async function nextMarker(places: Places, pause = often): Promise<boolean> {
  const folders = [places.spool, places.requests, places.rootRequests];
  const watchers: FSWatcher[] = [];
  let wake = () => {};
  try {
    for (const folder of folders) watchers.push(watch(folder, () => wake()).on("error", () => {}));
    for (;;) {
      for (const folder of [...folders, places.site, places.work]) {
        accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
        // The folder was removed: this sandbox still has it mounted, and deliveries come into a new one.
        if (statSync(folder).nlink === 0) return false;
      }
      if (arrived(places)) return true;
      const event = new AbortController();
      wake = () => event.abort();
      await sleep(pause, undefined, { signal: event.signal }).catch(() => {});
    }
  } catch {
    // A folder or a right is missing, which the next builder reports, or inotify's limits are reached.
    return false;
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}
