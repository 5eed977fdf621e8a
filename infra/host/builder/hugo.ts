/**
 * The one place where a repository's code, its templates, is evaluated: a unit an account of its own, which a connection
 * starts and whose output and end go back over it. Nothing is sent to it, so nothing can be asked of it but a build.
 *
 * Its root is an empty folder with the distribution, the clone and the content bound into it, all read-only. hugo mounts
 * absolute paths where a site's configuration says so (`module.mounts`), so what is not in here is what a template's
 * author cannot publish. TemporaryFileSystem=/ would read better and does nothing: systemd 252 and 257 leave the host's
 * own root over it, without a word.
 */

import type { SiteHook } from "../../config/derived.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { sandbox } from "../sandbox.ts";

/** Of the unit, inside its root. */
const inside = { source: "/source", content: "/content", destination: "/out", cache: "/cache" } as const;

export const hugoRoot = `${paths.hugo}/root` as const;
export const hugoSocketPath = (hook: string) => `${paths.hugo}/${hook}.sock` as const;

type Folders = Readonly<Record<keyof typeof inside, string>>;

/**
 * Flags and HUGO_ variables outrank the site's own configuration (tested with a site that opens both policies).
 * `--noBuildLock`: the source is read-only. `--noChmod`, `--noTimes`: the destination is another account's folder, whose
 * times hugo may not set, and it fails where it may not.
 */
export const hugoArguments = ({ source, content, destination, cache }: Folders): readonly string[] => [
  ...["--minify", "--noBuildLock", "--noChmod", "--noTimes"],
  ...["--source", source, "--contentDir", content, "--destination", destination, "--cacheDir", cache],
];

/** A list as hugo reads it from a variable: JSON; for an empty one, the word that closes the policy. */
const policy = (allowed: readonly string[]): string => (allowed.length === 0 ? "none" : JSON.stringify(allowed));

type Policies = Readonly<Record<"exec" | "http", readonly string[]>>;

export const hugoEnvironment = (cache: string, { exec, http }: Policies): Readonly<Record<string, string>> => ({
  HUGO_ENABLEGITINFO: "false",
  HUGO_ENVIRONMENT: "production",
  HUGO_RESOURCEDIR: `${cache}/resources`,
  HUGO_SECURITY_EXEC_ALLOW: policy(exec),
  HUGO_SECURITY_HTTP_URLS: policy(http),
});

/** The last line of a connection; the builder reads it (service/builder). */
const verdict = "pushgate-hugo result=${SERVICE_RESULT} code=${EXIT_CODE} status=${EXIT_STATUS}";

/** A value for `Environment=`: systemd reads quotes, backslashes and percent signs in it. */
const assigned = (name: string, value: string): string =>
  `Environment="${name}=${value.replace(/[\\"]/g, "\\$&").replaceAll("%", "%%")}"`;

/** What a program that hugo runs, or a fetch of its, needs beside the distribution. */
function also({ exec, http, path }: SiteHook["site"]["hugo"]): string[] {
  return [
    ...(path.startsWith("/usr/") ? [] : [path]),
    ...(exec.length > 0 ? ["-/etc/alternatives"] : []),
    ...(http.length > 0 ? ["-/etc/hosts", "-/etc/resolv.conf", "-/etc/ssl/certs"] : []),
  ];
}

export const hugoSocketText = ({ name }: SiteHook): string => `[Unit]
Description=pushgate: asks hugo to build ${name}

[Socket]
ListenStream=${hugoSocketPath(name)}
# Whoever connects has a build made: the builder, and root.
SocketUser=${builderUser}
SocketMode=0600
Accept=yes
# A second one is closed at once, without a verdict.
MaxConnections=1

[Install]
WantedBy=sockets.target
`;

export function hugoServiceText({ name, site }: SiteHook): string {
  const { hugo, limits, content } = site;
  const work = `${paths.sites}/${name}/work`;
  const networked = hugo.http.length > 0;
  return `[Unit]
Description=pushgate: hugo builds ${name}
# Its end is told over the connection; a failed one would only pile up.
CollectMode=inactive-or-failed

[Service]
Type=exec
ExecStart=${hugo.path} ${hugoArguments(inside).join(" ")}
# A folder that hugo copied has the mode it had in the clone, and the builder could not empty it. TimeoutStopSec= holds
# for this, too: 50,000 folders are 1.3 s on two cores at rest, and beside busy neighbours five seconds were met.
ExecStopPost=-/usr/bin/find ${inside.destination} -mindepth 1 -type d -exec chmod 0777 {} +
# The last word: success, exit-code, signal, timeout, oom-kill.
ExecStopPost=/bin/echo "${verdict}"
StandardInput=socket
StandardOutput=socket
StandardError=socket
WorkingDirectory=${inside.source}
# Over whatever the site's own configuration says.
${Object.entries(hugoEnvironment(inside.cache, hugo))
  .map(([name, value]) => assigned(name, value))
  .join("\n")}
User=${hugoUser}
${site.writers === undefined ? "" : `# Content that only its writers may read.\nSupplementaryGroups=${site.writers}\n`}# What it makes the builder, another account, removes; ${work} lets nobody else get there.
UMask=0000
Slice=system.slice

RootDirectory=${hugoRoot}
MountAPIVFS=yes
BindReadOnlyPaths=/usr -/bin -/lib -/lib64 -/etc/localtime
${also(hugo)
  .map((path) => `BindReadOnlyPaths=${path}\n`)
  .join("")}BindReadOnlyPaths=${work}/clone:${inside.source} ${content}:${inside.content}
BindPaths=${work}/out:${inside.destination} ${work}/cache:${inside.cache}

RuntimeMaxSec=${limits.seconds}s
TimeoutStopSec=20s
CPUQuota=${limits.cpuPercent}%
# The published site is served meanwhile.
CPUWeight=20
IOWeight=20
MemoryMax=${limits.memoryMiB}M
MemorySwapMax=0
TasksMax=${limits.tasks}
# Where the kernel counts no memory (cgroup_disable=memory, as on a Raspberry Pi), the lines above hold nothing. Twice,
# as memory that was asked for counts here before it is used.
LimitDATA=${2 * limits.memoryMiB}M
LimitNPROC=${limits.tasks}
LimitFSIZE=${limits.releaseMiB}M
LimitCORE=0

${
  networked
    ? `# Over TLS, to addresses of the internet: ${units.egress}.
RestrictAddressFamilies=AF_INET AF_INET6`
    : `PrivateNetwork=yes
RestrictAddressFamilies=none
IPAddressDeny=any`
}
${sandbox("hugo")}
`;
}
