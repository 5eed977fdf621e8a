/**
 * A marker is a file that starts a build: a delivery in the spool, or a request of root or of the writers' group.
 * - The builder moves it into `.taken` and removes it after the publish: after a power cut it is pending again.
 * - Only its name and owner count. A member can move a file of root there, so a rollback must also hold its own name.
 */
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { ifThere } from "./files.ts";
import type { Places } from "./places.ts";
import { failed, printable } from "./setback.ts";

export type Marker = {
  readonly kind: "delivery" | "request" | "tick" | "rollback" | "adopt";
  /** For people. */
  readonly name: string;
  /** Of a rollback. */
  readonly release?: string;
  /** Bytes, as a member may give any name. */
  readonly file: Buffer;
};

/** Bytes; a rollback holds one line. */
const longestText = 200;

const inside = (folder: string, name: Buffer): Buffer => Buffer.concat([Buffer.from(`${folder}/`), name]);
const takenIn = (folder: string): string => `${folder}/.taken`;
/** Names without a leading dot. */
const list = (folder: string): Buffer[] =>
  (ifThere(() => readdirSync(folder, "buffer")) ?? []).filter((name) => name[0] !== 0x2e);

/**
 * When the newest marker came that is not taken, in milliseconds since 1970; 0 where there is none. `hushed` leaves out
 * the requests of root: a person waits for them, and they come one by one.
 */
export function newest({ spool, requests, root }: Places, hushed = false): number {
  let latest = 0;
  for (const folder of [spool, requests])
    for (const name of list(folder)) {
      const stat = ifThere(() => lstatSync(inside(folder, name)));
      // ctime: a rename sets it, and a writer can't set it to tomorrow.
      if (stat && !(hushed && folder === requests && stat.uid === root)) latest = Math.max(latest, stat.ctimeMs);
    }
  return latest;
}

/** Takes all markers, and returns them with those taken before. `stuck`: those that can't be taken. */
export function take(places: Places): { readonly markers: readonly Marker[]; readonly stuck: readonly string[] } {
  const stuck: string[] = [];
  for (const folder of [places.spool, places.requests]) {
    makeTaken(folder);
    for (const name of list(folder)) {
      const path = inside(folder, name);
      try {
        // A folder is no request, and its content is not the builder's to remove.
        if (ifThere(() => lstatSync(path))?.isDirectory()) rmdirSync(path);
        else ifThere(() => renameSync(path, inside(takenIn(folder), name)));
      } catch {
        stuck.push(`${folder}/${name}`);
      }
    }
  }
  return { markers: pending(places), stuck };
}

/** systemd-tmpfiles makes it. In a folder that a member made, a request of root would be the member's to change. */
function makeTaken(folder: string): void {
  const path = takenIn(folder);
  if (!ifThere(() => lstatSync(folder)))
    throw failed(`${folder} is missing. Run systemd-tmpfiles --create, which makes it.`);
  if (!ifThere(() => lstatSync(path))) mkdirSync(path, { mode: 0o700 });
  const stat = lstatSync(path);
  if (!stat.isDirectory() || stat.uid !== process.getuid?.())
    throw failed(`${path} is no folder of the builder. Run rm -rf on it and systemd-tmpfiles --create.`);
}

/** Markers that are taken and not published, deliveries first, then requests by age. */
export function pending({ spool, requests, root }: Places): readonly Marker[] {
  const taken = (folder: string) => list(takenIn(folder)).map((name) => [name, inside(takenIn(folder), name)] as const);
  const deliveries = taken(spool).map(([name, file]): Marker => {
    const id = printable(name.toString().replace(/\.json$/, ""), 100);
    return { kind: "delivery", name: `delivery ${id}`, file };
  });
  const others = taken(requests).map(([name, file]) => {
    const stat = lstatSync(file);
    return { age: stat.mtimeMs, marker: requestOf(file, name.toString(), stat, root) };
  });
  return [...deliveries, ...others.sort((a, b) => a.age - b.age).map(({ marker }) => marker)];
}

function requestOf(file: Buffer, name: string, stat: Stats, root: number): Marker {
  const { uid, nlink, mode, size } = stat;
  const ordinary: Marker = { kind: "request", name: `request of uid ${uid} (${printable(name, 50)})`, file };
  if (uid !== root || !stat.isFile()) return ordinary;
  if (name === "tick" || name === "adopt") return { kind: name, name, file };
  const release = /^rollback-(.+)$/.exec(name)?.[1];
  if (release === undefined || nlink !== 1 || (mode & 0o022) !== 0 || size > longestText) return ordinary;
  try {
    if (readFileSync(file, "utf8").trim() === name)
      return { kind: "rollback", name: printable(name, 100), release, file };
  } catch {}
  return ordinary;
}

/** Removes markers whose work is done, and on the disk. */
export function release(markers: readonly Marker[]): void {
  for (const { file } of markers) ifThere(() => unlinkSync(file));
}

/** For status and journal. */
export function named(markers: readonly Marker[], most = 10): string[] {
  const names = markers.slice(0, most).map(({ name }) => name);
  return markers.length > most ? [...names, `${markers.length - most} more`] : names;
}
