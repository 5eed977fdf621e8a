/**
 * Hugo's unit, the only one in which code of a repository runs: its templates, as an account of their own.
 *
 * - A connection to the socket starts it, and gets its output and result. The builder sends nothing, so all it can
 *   request is a build.
 * - Its root is an empty folder with the distribution, the clone and the content mounted read-only: Hugo publishes any
 *   absolute path that a site's configuration names (`module.mounts`), and so may publish no other file of the host.
 * - TemporaryFileSystem=/ would be shorter and has no effect: systemd 252 and 257 leave the host's root in place.
 */
import type { HostFile } from "../../apply/layer.ts";
import type { SiteHook } from "../../config/derived.ts";
import { unitFile } from "../kit.ts";
import { hugoUser, paths, units } from "../paths.ts";
import { sandbox } from "../sandbox.ts";

/** Folders in the unit's root; pushgate-hugo@.service mounts them. */
const inside = { source: "/source", content: "/content", destination: "/out", cache: "/cache" } as const;

export const hugoRoot = `${paths.hugo}/root` as const;
export const hugoSocketPath = (hook: string) => `${paths.hugo}/${hook}.sock` as const;

type Folders = Readonly<Record<keyof typeof inside, string>>;

/**
 * Flags and HUGO_ variables outrank the site's own configuration (tested with a site that opens both policies).
 * `--noBuildLock`: the source is read-only. `--noChmod`, `--noTimes`: the destination is another account's folder, whose
 * times Hugo may not set, and it fails where it may not.
 */
export const hugoArguments = ({ source, content, destination, cache }: Folders): readonly string[] => [
  ...["--minify", "--noBuildLock", "--noChmod", "--noTimes"],
  ...["--source", source, "--contentDir", content, "--destination", destination, "--cacheDir", cache],
];

/** A list as Hugo reads it from a variable: JSON; for an empty one, the word that closes the policy. */
const policy = (allowed: readonly string[]): string => (allowed.length === 0 ? "none" : JSON.stringify(allowed));

type Policies = Readonly<Record<"exec" | "http", readonly string[]>>;

export const hugoEnvironment = (cache: string, { exec, http }: Policies): Readonly<Record<string, string>> => ({
  HUGO_ENABLEGITINFO: "false",
  HUGO_ENVIRONMENT: "production",
  HUGO_RESOURCEDIR: `${cache}/resources`,
  HUGO_SECURITY_EXEC_ALLOW: policy(exec),
  HUGO_SECURITY_HTTP_URLS: policy(http),
});

/** systemd reads quotes, backslashes and percent signs in a value of `Environment=`. */
const assigned = ([name, value]: [string, string]): string =>
  `Environment="${name}=${value.replace(/[\\"]/g, "\\$&").replaceAll("%", "%%")}"`;

/** What programs and downloads of Hugo need beside the distribution. */
const more = ({ exec, http, path }: SiteHook["site"]["hugo"]): string[] => [
  ...(path.startsWith("/usr/") ? [] : [path]),
  ...(exec.length > 0 ? ["-/etc/alternatives"] : []),
  ...(http.length > 0 ? ["-/etc/hosts", "-/etc/resolv.conf", "-/etc/ssl/certs"] : []),
];

const noNetwork = "PrivateNetwork=yes\nRestrictAddressFamilies=none\nIPAddressDeny=any";
const network = `# ${units.egress} limits this to TLS to public addresses.\nRestrictAddressFamilies=AF_INET AF_INET6`;

export function hugoService({ name, site: { hugo, limits, content, writers } }: SiteHook): HostFile {
  const { seconds, cpuPercent, memoryMiB, tasks, releaseMiB } = limits;
  const values = {
    ...{ hook: name, content, seconds, cpuPercent, memoryMiB, tasks, releaseMiB },
    hugo: [hugo.path, ...hugoArguments(inside)],
    environment: Object.entries(hugoEnvironment(inside.cache, hugo)).map(assigned).join("\n"),
    user: hugoUser,
    groups:
      writers === undefined
        ? ""
        : `# For content that only the group of \`site.writers\` may read.\nSupplementaryGroups=${writers}`,
    root: hugoRoot,
    work: `${paths.sites}/${name}/work`,
    more: more(hugo)
      .map((path) => `BindReadOnlyPaths=${path}`)
      .join("\n"),
    dataMiB: 2 * memoryMiB,
    network: hugo.http.length > 0 ? network : noNetwork,
    sandbox: sandbox("hugo"),
  };
  return unitFile(import.meta.url, units.hugo(name), values, "pushgate-hugo@.service");
}
