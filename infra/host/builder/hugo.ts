/** What Hugo is to the host: its package or release, its command lines, the variables that outrank a site's configuration. Pure. */
import { dirname } from "node:path";
import type { SiteHook } from "../../config/derived.ts";
import { toolsOf } from "../tools/tools.ts";

type Site = { readonly site: Pick<SiteHook["site"], "hugo" | "npm" | "tools"> };
/** `content`: outside the repository. */
type Folders = Readonly<Record<"destination" | "cache", string>> & { readonly content?: string | undefined };

/** `--noChmod`, `--noTimes`: Hugo may set neither in the destination, another account's folder, and would fail. */
export const buildArguments = (flags: readonly string[]) => ["--minify", "--noChmod", "--noTimes", ...flags];

/** Gets the address of a preview. */
export const address = "HUGO_BASEURL";

/** Hugo runs it for the history of pages alone, where a site's configuration sets enableGitInfo. */
const git = "^git$";

/** Of packages. Hugo 0.111 looks for npx, Hugo 0.131 for the program itself, and Hugo 0.168 for node, too. */
const ofPackages = "^(npx|node|postcss|tailwindcss|babel)$";

/**
 * One expression, or the word that closes the policy. Hugo reads a variable as a list, in YAML, only where the site's own
 * configuration has one, and as a single expression else. In YAML a blank may have a meaning.
 */
const policy = (allowed: readonly string[]): string =>
  allowed.map((pattern) => `(${pattern.replaceAll(" ", "\\x20")})`).join("|") || "none";

/**
 * They outrank the site's own configuration (tested with a site that opens both policies), also where Hugo looks at it. No
 * lock, and no assets/jsconfig.json of js.Build (before Hugo 0.168): the source is read-only.
 */
export function environment({ content, destination, cache }: Folders, site: Site["site"]) {
  const { baseUrl, environment, variables, exec, http } = site.hugo;
  const tools = toolsOf(site);
  const sass = site.tools.sass === undefined ? [] : ["^(dart-)?sass(-embedded)?$"];
  return {
    ...variables,
    ...(baseUrl !== undefined && { HUGO_BASEURL: baseUrl }),
    HUGO_BUILD_NOJSCONFIGINASSETS: "true",
    HUGO_CACHEDIR: cache,
    ...(content !== undefined && { HUGO_CONTENTDIR: content }),
    HUGO_ENVIRONMENT: environment,
    HUGO_NOBUILDLOCK: "true",
    HUGO_PUBLISHDIR: destination,
    HUGO_RESOURCEDIR: `${cache}/resources`,
    HUGO_SECURITY_EXEC_ALLOW: policy([git, ...sass, ...(site.npm ? [ofPackages] : []), ...exec]),
    // Hugo 0.111 passes no HOME on, without which npx ends. The environment has no secret.
    ...(site.npm && { HUGO_SECURITY_EXEC_OSENV: policy([".*"]) }),
    HUGO_SECURITY_HTTP_URLS: policy(http),
    ...(tools.length > 0 && {
      PATH: [...tools.map(({ program }) => dirname(program)), "/usr/local/bin:/usr/bin:/bin"].join(":"),
    }),
  };
}

export const program = ({ site }: Site): string =>
  toolsOf(site).find(({ tool }) => tool === "hugo")?.program ?? "/usr/bin/hugo";
export const packages = ({ site }: Site): string[] => (site.tools.hugo === undefined ? ["hugo"] : []);

export const readsWeb = ({ site }: Site): boolean => site.hugo.http.length > 0;
export const runsPrograms = ({ site }: Site): boolean => site.hugo.exec.length > 0;
