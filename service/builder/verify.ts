/** Whether a release is still what was published: nothing but its files, each with its bytes, and its links. */
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { ifThere, walk } from "./files.ts";
import { hashOf } from "./lay.ts";
import type { Manifest } from "./manifest.ts";
import type { Places } from "./places.ts";

/** Paths that differ, are missing, or are of nobody's build. */
export function differences(places: Places, { release, files, links }: Manifest): string[] {
  const folder = places.release(release);
  const found = ifThere(() => walk(folder, false));
  if (!found) return [release];
  const strange = [...found.files.map(({ path }) => path), ...found.others].filter((path) => !files.has(path));
  const changed = [...files].filter(([path, entry]) => hashOf(join(folder, path))?.sha256 !== entry.sha256);
  const led = found.links.filter((path) => links.get(path) !== readlinkSync(join(folder, path)));
  const unlinked = [...links.keys()].filter((path) => !found.links.includes(path));
  return [...new Set([...strange, ...changed.map(([path]) => path), ...led, ...unlinked])].sort();
}
