/**
 * The one place where a repository's code, its templates, is evaluated: a unit an account of its own, which a connection
 * starts and whose output and end go back over it. Nothing is sent to it, so nothing can be asked of it but a build.
 *
 * Its root is an empty folder with the distribution, the clone and the content bound into it, all read-only. hugo mounts
 * absolute paths where a site's configuration says so (`module.mounts`), so what is not in here is what a template's
 * author cannot publish. TemporaryFileSystem=/ would read better and does nothing: systemd 252 and 257 leave the host's
 * own root over it, without a word.
 */
import { hugoArguments, hugoEnvironment } from "../../../service/builder/hugo-command.ts";
import type { SiteHook } from "../../config/sites.ts";
import { template } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { sandbox } from "../sandbox.ts";

/** Of the unit, inside its root. */
const inside = { source: "/source", content: "/content", destination: "/out", cache: "/cache" } as const;

export const hugoRoot = `${paths.hugo}/root` as const;
export const hugoSocketPath = (hook: string) => `${paths.hugo}/${hook}.sock` as const;

/** systemd reads quotes, backslashes and percent signs in a value of `Environment=`. */
const assigned = ([name, value]: [string, string]): string =>
  `Environment="${name}=${value.replace(/[\\"]/g, "\\$&").replaceAll("%", "%%")}"`;

/** What a program that hugo runs, or a fetch of its, needs beside the distribution. */
const more = ({ exec, http, path }: SiteHook["site"]["hugo"]): string[] => [
  ...(path.startsWith("/usr/") ? [] : [path]),
  ...(exec.length > 0 ? ["-/etc/alternatives"] : []),
  ...(http.length > 0 ? ["-/etc/hosts", "-/etc/resolv.conf", "-/etc/ssl/certs"] : []),
];

const noNetwork = "PrivateNetwork=yes\nRestrictAddressFamilies=none\nIPAddressDeny=any";
const network = `# Over TLS, to addresses of the internet: ${units.egress}.\nRestrictAddressFamilies=AF_INET AF_INET6`;

export const hugoSocketText = ({ name }: SiteHook): string =>
  template(import.meta.url, "pushgate-hugo.socket", { hook: name, socket: hugoSocketPath(name), user: builderUser });

export const hugoServiceText = ({ name, site: { hugo, limits, content, writers } }: SiteHook): string =>
  template(import.meta.url, "pushgate-hugo@.service", {
    hook: name,
    hugo: [hugo.path, ...hugoArguments(inside)],
    environment: Object.entries(hugoEnvironment(inside.cache, hugo)).map(assigned).join("\n"),
    user: hugoUser,
    groups: writers === undefined ? "" : `# Content that only its writers may read.\nSupplementaryGroups=${writers}`,
    root: hugoRoot,
    work: `${paths.sites}/${name}/work`,
    content,
    more: more(hugo)
      .map((path) => `BindReadOnlyPaths=${path}`)
      .join("\n"),
    seconds: limits.seconds,
    cpuPercent: limits.cpuPercent,
    memoryMiB: limits.memoryMiB,
    tasks: limits.tasks,
    dataMiB: 2 * limits.memoryMiB,
    releaseMiB: limits.releaseMiB,
    network: hugo.http.length > 0 ? network : noNetwork,
    sandbox: sandbox("hugo"),
  });
