/**
 * A marker is a reason to build: a delivery in the spool, a request of the writers' group, or a request of root.
 * - Members of groups can put anything into spool and requests, and exchange it at any moment. So only a name counts, and
 *   the builder opens nothing there: it notes what it found in `taken`, a file of its own, and then removes it. What is
 *   noted is pending until it is published, also after a power cut.
 * - Root's requests are in a folder that no member can enter. They stay there until they are done, or parked.
 */
import { lstatSync, rmdirSync, type Stats, unlinkSync } from "node:fs";
import { printable } from "../../printable.ts";
import { tried } from "../../tried.ts";
import { eachName, ifThere, moveAside, readText, remove, syncFolder, writeWhole } from "../files.ts";
import type { Places } from "../places.ts";
import { failed, setbackOf } from "./setback.ts";

export type Marker = {
  readonly kind: "delivery" | "request" | "tick" | "schedule" | "rollback";
  readonly name: string;
  readonly release?: string;
  /** Of root's requests. */
  readonly file?: FoundFile;
};

/** The path in bytes, as a member may give any name. `key` distinguishes a later entry of the same name. */
type FoundFile = Readonly<{ folder: string; name: string; path: Buffer; stat: Stats | undefined; key: string }>;

/** Entries that one run takes from a folder: to remove 10,000 takes 0.2 s. */
const mostTaken = 10_000;
const mostNoted = 1_000; // deliveries, and requests: one more would add only its name
const mostNamed = 10;

/** Keys of entries that cannot be removed, such as mount points: they request one build, not one after the other. */
const stuck = new Set<string>();

function* entriesOf(folder: string): Generator<FoundFile> {
  for (const name of eachName(folder)) {
    if (name[0] === 0x2e) continue;
    const path = Buffer.concat([Buffer.from(`${folder}/`), name]);
    const stat = statOf(path);
    yield { folder, name: name.toString(), path, stat, key: `${path.toString("latin1")} ${stat?.ino}` };
  }
}

/** undefined where the entry is gone, or the builder may not look at it, as at a mount that a member made. */
const statOf = (path: Buffer): Stats | undefined => tried(() => lstatSync(path));

function found(folder: string): FoundFile[] {
  const entries: FoundFile[] = [];
  const isThere = ifThere(() => {
    for (const entry of entriesOf(folder)) if (entries.push(entry) === mostTaken) break;
    return true;
  });
  if (!isThere) throw failed(`${folder} is missing. Run systemd-tmpfiles --create, which makes it.`);
  return entries;
}

/** Never throws. `markers` has also those that an earlier run took; `left`: keys of what stays in the folders. */
export function take(places: Places) {
  const faults: string[] = [];
  const warnings: string[] = [];
  const attempt = <T>(work: () => T, otherwise: T): T => {
    try {
      return work();
    } catch (error) {
      faults.push(setbackOf(error).message);
      return otherwise;
    }
  };
  const look = (folder: string) => attempt(() => found(folder), []);
  const [deliveries, requests, rootRequests] = [look(places.spool), look(places.requests), look(places.rootRequests)];
  const there = new Set([...deliveries, ...requests, ...rootRequests].map(({ key }) => key));
  // Forgets an entry that is gone: a later one of its name may get the same inode.
  for (const key of stuck) if (!there.has(key)) stuck.delete(key);
  const names = [...unstuck(deliveries).map(deliveryName), ...unstuck(requests).map((entry) => requestName(entry))];
  const isNoted = attempt(() => {
    if (names.length > 0) write(places.taken, [...noted(places), ...names]);
    return true;
  }, false);
  const left = new Set(rootRequests.map(({ key }) => key));
  for (const entry of [...deliveries, ...requests]) {
    const fault = isNoted ? discard(entry, warnings) : undefined;
    if (fault !== undefined) faults.push(fault);
    if (!isNoted || fault !== undefined) left.add(entry.key);
  }
  return { markers: attempt(() => pending(places, rootRequests), []), faults, warnings, left };
}

/** Whether a marker came after the `take` that left these, or is there beside those that cannot be removed. */
export function arrived({ spool, requests, rootRequests }: Places, left: ReadonlySet<string> = stuck): boolean {
  for (const folder of [spool, requests, rootRequests])
    try {
      for (const { key } of entriesOf(folder)) if (!left.has(key)) return true;
    } catch {}
  return false;
}

/** Removes an entry of any kind; a folder with files in it gets a name that counts no more. Returns why that fails. */
function discard({ path, folder, name, key }: FoundFile, warnings: string[] = []): string | undefined {
  const shown = `${folder}/${printable(name, 100)}`;
  let code: string | undefined;
  for (const way of [unlinkSync, rmdirSync, (from: Buffer) => moveAside(folder, from)])
    try {
      const aside = way(path);
      stuck.delete(key);
      if (aside && warnings.length < 5)
        warnings.push(`${shown} is a folder with files in it, which root removes. Make a file in its place.`);
      return undefined;
    } catch (error) {
      code = (error as NodeJS.ErrnoException).code;
      if (code === "ENOENT") return undefined;
    }
  stuck.add(key);
  return `${shown} cannot be removed (${code}). Remove it.`;
}

const unstuck = (entries: readonly FoundFile[]): FoundFile[] => entries.filter(({ key }) => !stuck.has(key));

const isDelivery = (name: string): boolean => name.startsWith("delivery ");
const deliveryName = ({ name }: FoundFile): string => `delivery ${printable(name.replace(/\.json$/, ""), 100)}`;
/** Not by uid: in the builder's user namespace all accounts but its own and root's are one. */
const requestName = ({ name }: FoundFile, of = "a writer"): string => `request of ${of} (${printable(name, 50)})`;

const kindOf = (name: string): Marker["kind"] =>
  isDelivery(name) ? "delivery" : name === "tick" || name === "schedule" ? name : "request";

const noted = ({ parked, taken }: Places): string[] => {
  const text = [parked, taken].map((file) => readText(file) ?? "").join("");
  return [...new Set(text.split("\n").filter((name) => name !== ""))];
};

function write(file: string, names: readonly string[]): void {
  const deliveries = names.filter(isDelivery).slice(0, mostNoted);
  const requests = names.filter((name) => !isDelivery(name)).slice(0, mostNoted);
  writeWhole(file, `${[...deliveries, ...requests].join("\n")}\n`, 0o600);
}

/** Moves all but a rollback to where the .path unit does not look. False where something stays. */
export const park = (places: Places): boolean =>
  tried(() => {
    const markers = pending(places).filter((marker) => !runsOnce(marker));
    const names = markers.map(({ name }) => name);
    write(places.parked, names);
    remove(places.taken);
    return markers.every(({ file }) => file === undefined || discard(file) === undefined);
  }) ?? false;

export const runsOnce = ({ kind }: Marker): boolean => kind === "rollback";

/** Markers that are taken and not published, and root's requests by age. */
export function pending(places: Places, rootRequests = found(places.rootRequests)): readonly Marker[] {
  const taken = noted(places).map((name): Marker => ({ kind: kindOf(name), name }));
  const byAge = unstuck(rootRequests).sort((a, b) => (a.stat?.mtimeMs ?? 0) - (b.stat?.mtimeMs ?? 0));
  return [...taken, ...byAge.map(ofRoot)];
}

function ofRoot(file: FoundFile): Marker {
  const { name } = file;
  if (name === "tick" || name === "schedule") return { kind: name, name, file };
  const release = /^rollback-(.+)$/.exec(name)?.[1];
  if (release !== undefined) return { kind: "rollback", name: printable(name, 100), release, file };
  return { kind: "request", name: requestName(file, "root"), file };
}

/**
 * Removes markers whose work is done, and on the disk: of root's, those that root has not replaced meanwhile. A rollback
 * that came back after a power cut would undo a later publish; a push that comes back finds itself published.
 */
export function removeDone(places: Places, markers: readonly Marker[]): void {
  for (const { file } of markers) if (file && statOf(file.path)?.ino === file.stat?.ino) discard(file);
  if (markers.some(({ kind }) => kind === "rollback")) syncFolder(places.rootRequests);
  if (markers.some(({ file }) => !file)) for (const file of [places.taken, places.parked]) remove(file);
}

/** For status and journal; root's requests first, as their commands look for them there. */
export function named(markers: readonly Marker[], most = mostNamed): string[] {
  const ofRoot = markers.filter(({ file }) => file !== undefined);
  const names = [...new Set([...ofRoot, ...markers])].slice(0, most).map(({ name }) => name);
  return markers.length > most ? [...names, `${markers.length - most} more`] : names;
}
