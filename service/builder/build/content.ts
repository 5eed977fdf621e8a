/** What Hugo finds of a site, as its unit lists it: folders and pages. A repository may lie about its own only. */
import { posix } from "node:path";
import * as v from "valibot";
import { absolute } from "../../shapes.ts";
import { tried } from "../../tried.ts";
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

/**
 * The folders and files that Hugo mounts, relative to the clone, and the content that is outside; `whole`: with all of each
 * theme, whose configuration and later folders count, too. `listed`: JSON of each module, the site itself first, and other
 * lines between them.
 */
export function mounted(listed: string, given: Pick<Given, "folder">, whole = false): string[] {
  const read = (text: string) => tried(() => v.parse(moduleShape, JSON.parse(text))) ?? [];
  const modules = (listed.match(/^\{$.*?^\}$/gms) ?? []).flatMap(read);
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
    .map((path) => posix.relative(top, path));
  return [...new Set(folders)].sort();
}

export const isOutside = (path: string): boolean => path === ".." || path.startsWith("../");

const path = v.fallback(v.string(), "");
const mounts = v.array(v.object({ source: path }));
const moduleShape = v.object({ dir: absolute, mounts: v.fallback(mounts, []) });

export const fromOf = (given: Given, mounts: string): From => ({
  folder: given.folder ?? "",
  ...(given.content !== undefined && { content: given.content }),
  read: mounted(mounts, given, true).filter((path) => !isOutside(path)),
  ...(given.generator?.digest && { digest: given.generator.digest }),
});

/** Why a release was built from other folders, or by other settings of its generator, than those of now; undefined if it was not. */
export function movedFrom({ from, release }: Pick<Manifest, "from" | "release">, given: Given): string | undefined {
  if (from.folder !== (given.folder ?? "")) return `site.folder was ${from.folder || "not set"} for ${release}`;
  if (from.content !== given.content) return `site.content was ${from.content ?? "not set"} for ${release}`;
  if (from.digest !== given.generator?.digest) return `site.hugo, site.npm or site.tools was another for ${release}`;
}
