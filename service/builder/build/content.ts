/** What Hugo finds of the content, as its unit prints it: folders and pages. A repository may lie about its own only. */
import { posix } from "node:path";
import * as v from "valibot";
import { absolute } from "../../shapes.ts";
import type { From, Manifest } from "../release/releases.ts";
import type { BuilderSettings } from "../settings.ts";

export type Given = Pick<BuilderSettings, "content" | "folder">;

/** The generator's unit prints this and 32 hex digits, which build it is, in its first line; the other after the folders. */
export const beginOfBuild = "pushgate-generator build=";
export const endOfFolders = "pushgate-generator begins";

/** With `build.writeStats` Hugo writes it at the top of its source, and a site's tools read it there. */
export const statsName = "hugo_stats.json";

/** More than a real site needs: characters of what Hugo's unit prints, and folders. */
export const mostPrinted = 64 << 10;
const mostFolders = 50;

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

const usual = ({ folder = "" }: Given): string[] => [posix.join(folder, "content")];

/** `printed`: JSON of each module, the site itself first, and other lines between them. Relative to the clone. */
export function contentFolders(printed: string, given: Given, kind = /^\/?content(\/|$)/): string[] {
  const modules = (printed.slice(0, mostPrinted).match(/^\{$.*?^\}$/gms) ?? []).flatMap((text) => parsed(text, kind));
  const [site] = modules;
  if (site === undefined) return usual(given);
  // The clone, as Hugo's unit sees it.
  const top = posix.resolve(site.dir, ...(given.folder?.split("/").map(() => "..") ?? []));
  const folders = modules
    .flatMap(({ dir, mounts }) => mounts.map(({ source }) => posix.relative(top, posix.resolve(dir, source))))
    .filter((path) => path !== ".." && !path.startsWith("../"));
  return [...new Set(folders)].sort().slice(0, mostFolders);
}

const path = v.fallback(v.string(), "");
const mounts = v.array(v.object({ source: path, target: path }));
const moduleShape = v.object({ dir: absolute, mounts: v.fallback(mounts, []) });

function parsed(text: string, kind: RegExp): v.InferOutput<typeof moduleShape>[] {
  try {
    const { dir, mounts } = v.parse(moduleShape, JSON.parse(text));
    return [{ dir, mounts: mounts.filter(({ target }) => kind.test(target)) }];
  } catch {
    return [];
  }
}

export const fromOf = (given: Given, printed: string): From => ({
  folder: given.folder ?? "",
  content: given.content ?? contentFolders(printed, given),
});

export function contentOf({ from }: Pick<Manifest, "from">, given: Given): readonly string[] {
  if (given.content !== undefined) return [];
  return typeof from.content === "object" ? from.content : usual(given);
}

/** Why a release was built from other folders than those of the settings; undefined if it was not. */
export function movedFrom({ from, release }: Pick<Manifest, "from" | "release">, given: Given): string | undefined {
  if (from.folder !== (given.folder ?? "")) return `site.folder was ${from.folder || "not set"} for ${release}`;
  const outside = typeof from.content === "string" ? from.content : undefined;
  return outside === given.content ? undefined : `site.content was ${outside ?? "not set"} for ${release}`;
}
