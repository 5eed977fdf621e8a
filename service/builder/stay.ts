/**
 * The builder stays between two runs: to start one, with its sandbox and the agent of its deploy key, takes systemd and
 * Node 0.3 s, and a push would wait for it. Where it ends, the .path unit starts another one for the next marker.
 */
import { createSocket } from "node:dgram";
import { type FSWatcher, statSync, watch } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { arrived } from "./markers.ts";
import type { Places } from "./places.ts";

/** Milliseconds between two looks without an event: the kernel reports none for a folder that was removed. */
const often = 30_000;

/** True when a marker is there; false where this builder can't see the next one. */
export async function nextMarker(places: Places, pause = often): Promise<boolean> {
  const folders = [places.spool, places.requests, places.rootRequests];
  const watchers: FSWatcher[] = [];
  let wake = () => {};
  try {
    for (const folder of folders) watchers.push(watch(folder, () => wake()).on("error", () => {}));
    while (!arrived(places)) {
      // systemd mounted the folder into the sandbox: this builder keeps it, and deliveries come into another one.
      if (folders.some((folder) => statSync(folder).nlink === 0)) return false;
      const event = new AbortController();
      wake = () => event.abort();
      await sleep(pause, undefined, { signal: event.signal }).catch(() => {});
    }
    return true;
  } catch {
    // Without a folder, or above the kernel's limits of inotify.
    return false;
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}

/** Whether the egress table limits this account: it has the kernel reject all datagrams but those to name servers. */
export function isConfined(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    // Without an address, it goes to this host.
    socket.send("", 9, (error) => {
      resolve((error as NodeJS.ErrnoException | null)?.code === "EPERM");
      socket.close();
    });
  });
}
