/**
 * What asks for a build: one file each. The receiver's deliveries lie in the spool; members of the writers' group, and
 * root, drop asks into a folder of their own. A marker is taken by a rename into `.taken` beside it, and removed only
 * when what it asked for is published and on the disk: whatever was taken before a kill or a power cut is pending again.
 *
 * Nothing of a marker's content is believed: the branch head is fetched, whatever a delivery says. What root asks for is
 * known by the file's owner. A member can put a file of root's there by a hard link, or out of a home folder by a
 * rename, so a rollback must also hold its own name as text, which no member can write into a file of root's.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { ifThere } from "./files.ts";
import type { Places } from "./places.ts";
import { failed, printable } from "./setback.ts";

export type Marker = {
  readonly kind: "delivery" | "ask" | "tick" | "rollback" | "adopt";
  /** For people. */
  readonly name: string;
  /** Of a rollback: the release. */
  readonly release?: string;
  /** Bytes, as a member may give any name. */
  readonly file: Buffer;
};

const taken = ".taken";
const slash = Buffer.from("/");
const inside = (folder: string, name: Buffer): Buffer => Buffer.concat([Buffer.from(folder), slash, name]);
const visible = (names: Buffer[]): Buffer[] => names.filter((name) => name[0] !== 0x2e);
const list = (folder: string): Buffer[] => ifThere(() => visible(readdirSync(folder, "buffer"))) ?? [];

/** A small file's worth: a rollback holds one line. */
const longestText = 200;

/**
 * When the newest of what is not taken yet came, in milliseconds since 1970; 0 where there is nothing. `hushed` leaves
 * out root's asks: a person waits for them, and no burst comes of them.
 */
export function newest({ spool, asks, root }: Places, hushed = false): number {
  let latest = 0;
  for (const folder of [spool, asks])
    for (const name of list(folder)) {
      const stat = ifThere(() => lstatSync(inside(folder, name)));
      // ctime: a rename sets it, and a writer can't set it to tomorrow.
      if (stat && !(hushed && folder === asks && stat.uid === root)) latest = Math.max(latest, stat.ctimeMs);
    }
  return latest;
}

/** Takes all there are, and returns them with those that were taken before. `stuck`: names that can't be taken. */
export function take(places: Places): { readonly markers: readonly Marker[]; readonly stuck: readonly string[] } {
  const stuck: string[] = [];
  for (const folder of [places.spool, places.asks]) {
    makeTaken(folder);
    for (const name of list(folder)) {
      const path = inside(folder, name);
      try {
        // A member's folder is no ask, and what a member put into it is not ours to remove.
        if (ifThere(() => lstatSync(path))?.isDirectory()) rmdirSync(path);
        else ifThere(() => renameSync(path, inside(`${folder}/${taken}`, name)));
      } catch {
        stuck.push(`${folder}/${name}`);
      }
    }
  }
  return { markers: pending(places), stuck };
}

/** tmpfiles.d made it. Where a member did, what root asks for would be the member's to change. */
function makeTaken(folder: string): void {
  const path = `${folder}/${taken}`;
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw failed(`${folder} is not there: \`systemd-tmpfiles --create\` makes it`);
    if (code !== "EEXIST") throw error;
    const stat = lstatSync(path);
    if (!stat.isDirectory() || stat.uid !== process.getuid?.())
      throw failed(`${path} is no folder of the builder's own: rm -rf it; \`systemd-tmpfiles --create\` makes it anew`);
  }
}

/** What is taken and not yet published, oldest first. */
export function pending({ spool, asks, root }: Places): readonly Marker[] {
  const deliveries = list(`${spool}/${taken}`).map((name) => ({
    kind: "delivery" as const,
    name: `delivery ${printable(name.toString().replace(/\.json$/, ""), 100)}`,
    file: inside(`${spool}/${taken}`, name),
  }));
  const others = list(`${asks}/${taken}`).map((name) => askOf(inside(`${asks}/${taken}`, name), name.toString(), root));
  const age = ({ file }: Marker) => ifThere(() => lstatSync(file).mtimeMs) ?? 0;
  return [
    ...deliveries,
    ...others
      .map((ask) => [age(ask), ask] as const)
      .sort(([a], [b]) => a - b)
      .map(([, ask]) => ask),
  ];
}

function askOf(file: Buffer, name: string, root: number): Marker {
  const stat = lstatSync(file);
  const ordinary: Marker = { kind: "ask", name: `ask of uid ${stat.uid} (${printable(name, 50)})`, file };
  if (stat.uid !== root || !stat.isFile()) return ordinary;
  if (name === "tick" || name === "adopt") return { kind: name, name, file };
  const release = /^rollback-(.+)$/.exec(name)?.[1];
  if (release === undefined || stat.nlink !== 1 || (stat.mode & 0o022) !== 0 || stat.size > longestText)
    return ordinary;
  try {
    if (readFileSync(file, "utf8").trim() === name)
      return { kind: "rollback", name: printable(name, 100), release, file };
  } catch {}
  return ordinary;
}

/** Its work is done, and on the disk. */
export function release(markers: readonly Marker[]): void {
  for (const { file } of markers) ifThere(() => unlinkSync(file));
}

/** For status and journal. */
export function named(markers: readonly Marker[], most = 10): string[] {
  const names = markers.slice(0, most).map(({ name }) => name);
  return markers.length > most ? [...names, `${markers.length - most} more`] : names;
}
