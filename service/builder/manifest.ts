/**
 * What a release holds: each file with its size, its hash, and the release whose build made it. It is written when all
 * of the release is on the disk; a release without one was never finished, and is removed at the next start.
 */
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { ifThere, remove, syncFolder } from "./files.ts";
import { type Places, releaseId } from "./places.ts";

export type Entry = {
  readonly size: number;
  /** Hex. */
  readonly sha256: string;
  /** The release whose build made the file; another than this one where an asset is carried along. */
  readonly built: string;
};

export type Manifest = {
  readonly release: string;
  /** null: adopted. */
  readonly commit: string | null;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly pages: number;
  readonly bytes: number;
  /** By path. */
  readonly files: ReadonlyMap<string, Entry>;
  /** Symbolic links and where they lead: to what is kept, and whatever an adopted folder had. */
  readonly links: ReadonlyMap<string, string>;
};

/** Before the release is synced, under a name that means nothing yet. */
export function draft(places: Places, manifest: Manifest): void {
  const files = [...manifest.files].map(([path, { size, sha256, built }]) =>
    built === manifest.release ? [path, size, sha256] : [path, size, sha256, built],
  );
  const path = places.manifest(manifest.release);
  remove(`${path}.new`);
  writeFileSync(`${path}.new`, `${JSON.stringify({ ...manifest, links: [...manifest.links], files })}\n`, {
    flag: "wx",
  });
}

/** After: from now on the release is one. */
export function seal(places: Places, release: string): void {
  renameSync(`${places.manifest(release)}.new`, places.manifest(release));
  syncFolder(places.manifests);
}

/** A sealed one never changes, and of 5,000 files takes 5 ms to read. */
const read = new Map<string, Manifest>();

/** undefined where there is none, or none that can be read. */
export function readManifest(places: Places, release: string): Manifest | undefined {
  const path = places.manifest(release);
  const manifest = read.get(path) ?? parsed(path, release);
  if (manifest) read.set(path, manifest);
  return manifest;
}

export function removeManifest(places: Places, release: string): void {
  read.delete(places.manifest(release));
  remove(places.manifest(release));
}

function parsed(path: string, release: string): Manifest | undefined {
  const text = ifThere(() => readFileSync(path, "utf8"));
  if (text === undefined) return undefined;
  try {
    const json = JSON.parse(text) as Omit<Manifest, "files" | "links"> & {
      files: [string, number, string, string?][];
      links: [string, string][];
    };
    if (json.release !== release) return undefined;
    const files = json.files.map(([path, size, sha256, built = release]): [string, Entry] => [
      path,
      { size, sha256, built },
    ]);
    return { ...json, files: new Map(files), links: new Map(json.links) };
  } catch {
    return undefined;
  }
}

/** Finished releases, newest first. */
export function releases({ manifests, releases }: Places): string[] {
  const finished = new Set(ifThere(() => readdirSync(manifests)) ?? []);
  return (ifThere(() => readdirSync(releases)) ?? [])
    .filter((name) => releaseId.test(name) && finished.has(`${name}.json`))
    .sort()
    .reverse();
}
