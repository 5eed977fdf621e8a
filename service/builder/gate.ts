/** What a build must be before anybody sees it. hugo exits 0 with nothing written where the layouts are missing. */
import { type Found, isUnder, walk } from "./files.ts";
import { listed, refused } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

/** What a file takes on the disk at least: a build of empty files is bounded, too. */
const block = 4096;

export const isPage = (path: string): boolean => /\.html?$/i.test(path);

/** `formerPages`: of the release that is published, or null. Returns everything that was built. Throws Setback. */
export function gate(
  out: string,
  { limits, keep }: Pick<BuilderSettings, "limits" | "keep">,
  formerPages: number | null,
  leftOut: readonly string[],
): Found {
  const found = lookAt(out);
  const hint = leftOut.length > 0 ? `; links are left out: ${listed(leftOut)}` : "";
  if (found.links.length > 0)
    throw refused(`hugo wrote symbolic links, which may lead anywhere: ${listed(found.links)}`);
  if (found.others.length > 0) throw refused(`hugo wrote what is no file: ${listed(found.others)}`);
  const index = found.files.find(({ path }) => path === "index.html");
  if (!index)
    throw refused(`hugo wrote no index.html: are the layouts (a theme, a submodule) in the repository?${hint}`);
  if (index.size === 0) throw refused(`hugo wrote an empty index.html: layouts/index.html gives nothing${hint}`);
  const pages = pagesOf(found.files, keep);
  const least = formerPages === null ? 0 : Math.ceil((formerPages * limits.pagesPercent) / 100);
  if (pages < least)
    throw refused(
      `only ${pages} pages where the published release has ${formerPages}: is the content there? If so many were ` +
        `taken away on purpose, lower hooks[].site.limits.pagesPercent (${limits.pagesPercent})${hint}`,
    );
  const bytes = found.files.reduce((sum, { size }) => sum + Math.ceil(Math.max(size, 1) / block) * block, 0);
  if (bytes > limits.releaseBytes)
    throw refused(
      `the site takes ${mebibytes(bytes)} MiB on the disk, and may take ${mebibytes(limits.releaseBytes)}: raise ` +
        "hooks[].site.limits.releaseMiB",
    );
  return found;
}

export const pagesOf = (files: readonly { readonly path: string }[], keep: readonly string[]): number =>
  files.filter(({ path }) => isPage(path) && !keep.some((kept) => isUnder(path, kept))).length;

function lookAt(out: string): Found {
  try {
    return walk(out);
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT") throw error;
    if (path === out) return { folders: [], files: [], links: [], others: [] };
    throw refused(`hugo wrote a name that is not UTF-8: ${listed([String(path)])}`);
  }
}

const mebibytes = (bytes: number): string => (bytes / (1 << 20)).toFixed(1);
