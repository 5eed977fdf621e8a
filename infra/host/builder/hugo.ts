/** What Hugo is to the host: its package, its command lines, the variables that outrank a site's configuration. Pure. */
import type { SiteHook } from "../../config/derived.ts";

type Site = Pick<SiteHook, "site">;
type Hugo = SiteHook["site"]["hugo"];
/** `content`: outside the repository. */
type Folders = Readonly<Record<"source" | "destination" | "cache", string>> & { readonly content?: string | undefined };

/**
 * Flags and HUGO_ variables outrank the site's own configuration (tested with a site that opens both policies).
 * `--noBuildLock`: the source is read-only. `--noChmod`, `--noTimes`: the destination is another account's folder, whose
 * times Hugo may not set, and it fails where it may not.
 */
export const buildArguments = (
  { source, content, destination, cache }: Folders,
  flags: readonly string[] = [],
): readonly string[] => [
  ...["--minify", "--noBuildLock", "--noChmod", "--noTimes", ...flags],
  ...["--source", source, ...(content === undefined ? [] : ["--contentDir", content])],
  ...["--destination", destination, "--cacheDir", cache],
];

/** Prints what the site in the working folder mounts; and its pages, as CSV. */
export const look = { folders: "config mounts", pages: "list all" } as const;

/** Shell, in the site's folder: adds what the repository has of the cache, such as compiled Sass. The newest of both counts. */
export const fillCache = (cache: string) =>
  `[ ! -d resources/_gen ] || cp -Ru --parents resources/_gen ${cache} 2>/dev/null`;

/** Hugo runs it for the history of pages alone, where a site's configuration sets enableGitInfo. */
const git = "^git$";

/**
 * One expression, or the word that closes the policy. Hugo reads a variable as a list, in YAML, only where the site's own
 * configuration has one, and as a single expression else. In YAML a blank may have a meaning.
 */
const policy = (allowed: readonly string[]): string =>
  allowed.map((pattern) => `(${pattern.replaceAll(" ", "\\x20")})`).join("|") || "none";

/** The folders and the lock are flags, too; but not of `list`, with which Hugo 0.111 makes the folder to publish in. */
export const environment = (
  { content, destination, cache }: Omit<Folders, "source">,
  { baseUrl, environment = "production", variables, exec, http }: Pick<Hugo, "exec" | "http"> & Partial<Hugo>,
) => ({
  ...variables,
  ...(baseUrl !== undefined && { HUGO_BASEURL: baseUrl }),
  HUGO_CACHEDIR: cache,
  ...(content !== undefined && { HUGO_CONTENTDIR: content }),
  HUGO_ENVIRONMENT: environment,
  HUGO_NOBUILDLOCK: "true",
  HUGO_PUBLISHDIR: destination,
  HUGO_RESOURCEDIR: `${cache}/resources`,
  HUGO_SECURITY_EXEC_ALLOW: policy([git, ...exec]),
  HUGO_SECURITY_HTTP_URLS: policy(http),
});

export const program = ({ site }: Site): string => site.hugo.path;
/** Another program than the distribution's is the operator's to install. */
export const packages = ({ site }: Site): string[] => (site.hugo.path === "/usr/bin/hugo" ? ["hugo"] : []);

export const readsWeb = ({ site }: Site): boolean => site.hugo.http.length > 0;
export const runsPrograms = ({ site }: Site): boolean => site.hugo.exec.length > 0;

/** `found`: how `sed` finds the version in what Hugo prints. */
export const version = ({ site: { hugo } }: Site) => ({
  minimum: hugo.minimum,
  found: "s/^hugo[^0-9]*v\\{0,1\\}\\([0-9][0-9.]*[0-9]\\).*/\\1/p",
  advice: `install Hugo ${hugo.minimum} or later, and set \`site.hugo.path\` to it`,
});
