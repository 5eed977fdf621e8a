/** What Hugo finds of a site, as its unit lists it: folders and pages. A repository may lie about its own only. */
import { posix } from "node:path";
import * as v from "valibot";
import { absolute } from "../../shapes.ts";
import { tried } from "../../tried.ts";
import { isUnder } from "../files.ts";
import type { From, Manifest } from "../release/releases.ts";
import type { BuilderSettings } from "../settings.ts";

export type Given = Pick<BuilderSettings, "content" | "folder"> & { readonly generator?: { readonly digest?: string } };

/** A unit prints this and 32 hex digits, which build it is, in its first line. */
export const beginOfBuild = "pushgate-generator build=";
export const firstLine = new RegExp(`^${beginOfBuild}([0-9a-f]{32})\n`);

/** With `build.writeStats` Hugo writes it at the top of its source, and a site's tools read it there. */
export const statsName = "hugo_stats.json";

const never = "0001-01-01T00:00:00Z"; // of a page that does not expire

/**
 * Pages that are no drafts, neither expired nor to come, by their addresses: Hugo gives none to a page that it does not
 * render, and another ending to one that is not HTML. The line ends: …,date,expiryDate,publishDate,draft,permalink.
 */
export function pagesListed(csv: string, now = Date.now()): number {
  const lines = csv.matchAll(/,([^,\n]+),([^,\n]+),false,([^,\n]*(?:\/|\.html?))(?=[,\n])/g);
  const addresses = new Set<string>();
  for (const [, expiry = "", begin = "", address = ""] of lines)
    if (Date.parse(begin) <= now && (expiry === never || Date.parse(expiry) > now)) addresses.add(address);
  return addresses.size;
}

/** From JSON of each module, the site itself first, and other lines between them; none where it is not known. */
function modulesIn(listed: string) {
  const read = (text: string) => tried(() => v.parse(moduleShape, JSON.parse(text))) ?? [];
  return (listed.match(/^\{$.*?^\}$/gms) ?? []).flatMap(read);
}

/** Where the generator's unit has the content that is outside the repository. */
export const contentInside = "/content";

/** Whether Hugo reads that content: `contentDir` of a language, or `module.mounts`, may outrank its place. */
export function readsContent(listed: string, content: string): boolean {
  const modules = modulesIn(listed);
  const sources = modules.flatMap(({ dir, mounts }) => mounts.map(({ source }) => posix.resolve(dir, source)));
  // The fake of the unit has it in its own folder.
  return modules.length === 0 || sources.some((path) => isUnder(path, contentInside) || isUnder(path, content));
}

/**
 * The folders and files that Hugo mounts, relative to the clone; `whole`: with all of each theme, whose configuration and
 * later folders count, too.
 */
export function mounted(listed: string, given: Pick<Given, "folder">, whole = false): string[] {
  const modules = modulesIn(listed);
  const [site] = modules;
  // Everything, where it is not known.
  if (site === undefined) return [""];
  // The clone, as Hugo's unit sees it.
  const top = posix.resolve(site.dir, ...(given.folder?.split("/").map(() => "..") ?? []));
  const folders = modules
    .flatMap(({ dir, mounts }) => [
      ...(whole && dir !== site.dir ? [dir] : []),
      ...mounts.map(({ source }) => posix.resolve(dir, source)),
    ])
    .map((path) => posix.relative(top, path))
    .filter((path) => path !== ".." && !path.startsWith("../"));
  return [...new Set(folders)].sort();
}

const path = v.fallback(v.string(), "");
const mounts = v.array(v.object({ source: path }));
const moduleShape = v.object({ dir: absolute, mounts: v.fallback(mounts, []) });

export const fromOf = (given: Given, mounts: string): From => ({
  folder: given.folder ?? "",
  ...(given.content !== undefined && { content: given.content }),
  read: mounted(mounts, given, true),
  ...(given.generator?.digest && { digest: given.generator.digest }),
});

/** Why a release was built from other folders, or by other settings of its generator, than those of now; undefined if it was not. */
export function movedFrom({ from, release }: Pick<Manifest, "from" | "release">, given: Given): string | undefined {
  if (from.folder !== (given.folder ?? "")) return `site.folder was ${from.folder || "not set"} for ${release}`;
  if (from.content !== given.content) return `site.content was ${from.content ?? "not set"} for ${release}`;
  if (from.digest !== given.generator?.digest) return `site.hugo, site.npm or site.tools was another for ${release}`;
}
