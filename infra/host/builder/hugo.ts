/**
 * Hugo's unit, the only one in which code of a repository runs: its templates, as an account of their own.
 *
 * - A connection to the socket starts it, and gets its output. The builder sends nothing, so all it can request is a
 *   build. The unit's process can write, keep or close the connection as it likes: how a build ended is in a file that
 *   root writes when no process of the unit is left.
 * - Its root is an empty folder with the distribution, the clone and the content mounted read-only: Hugo publishes any
 *   absolute path that a site's configuration names (`module.mounts`), and so may publish no other file of the host.
 * - systemd mounts the content by its path. Before each build root finds the folder that this path should lead to.
 * - TemporaryFileSystem=/ would be shorter and has no effect: systemd 252 and 257 leave the host's root in place.
 */
import { endOfFolders } from "../../../service/builder/source/content.ts";
import type { HostFile } from "../../apply/layer.ts";
import type { SiteHook } from "../../config/derived.ts";
import { unitFile, unitWord } from "../kit.ts";
import { hugoUser, paths, units } from "../paths.ts";
import { sandbox } from "../sandbox.ts";

/** Folders in the unit's root; pushgate-hugo@.service mounts them. */
const inside = { source: "/source", content: "/content", destination: "/out", cache: "/cache" } as const;

/** Where the site is in the clone. */
const sourceOf = (folder?: string): string => (folder === undefined ? inside.source : `${inside.source}/${folder}`);

export const hugoRoot = `${paths.hugo}/root` as const;
export const hugoResults = `${paths.hugo}/results` as const;
export const hugoSocketPath = (hook: string) => `${paths.hugo}/${hook}.sock` as const;

/** Starts Hugo if it has the content folder that root found; content.sh has the reason. */
export const contentProgram = `${paths.lib}/hugo-content` as const;
/** In the unit's root: the content folder that root found. */
export const noteOfContent = (hook: string) => `/content-of-${hook}` as const;

type Folders = Readonly<Record<"source" | "destination" | "cache", string>> & {
  /** Outside the repository. */
  readonly content?: string | undefined;
};

/**
 * Flags and HUGO_ variables outrank the site's own configuration (tested with a site that opens both policies).
 * `--noBuildLock`: the source is read-only. `--noChmod`, `--noTimes`: the destination is another account's folder, whose
 * times Hugo may not set, and it fails where it may not.
 */
export const hugoArguments = ({ source, content, destination, cache }: Folders): readonly string[] => [
  ...["--minify", "--noBuildLock", "--noChmod", "--noTimes"],
  ...["--source", source, ...(content === undefined ? [] : ["--contentDir", content])],
  ...["--destination", destination, "--cacheDir", cache],
];

/**
 * Has Hugo print which folders are the content, where the repository has it: service/builder/source/content.ts. Hugo 0.111 makes
 * the folder to publish in even here, and would end where it is in the read-only source.
 */
export const mountsCommand = (program: string, { source, destination, cache }: Folders): readonly string[] => [
  ...["/usr/bin/env", `HUGO_PUBLISHDIR=${destination}`, `HUGO_CACHEDIR=${cache}`],
  ...[program, "config", "mounts", "--source", source],
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
  ...(path.startsWith("/usr/") ? [] : [unitWord(path)]),
  ...(exec.length > 0 ? ["-/etc/alternatives"] : []),
  ...(http.length > 0 ? ["-/etc/hosts", "-/etc/resolv.conf", "-/etc/ssl/certs"] : []),
];

const noNetwork = "PrivateNetwork=yes\nRestrictAddressFamilies=none\nIPAddressDeny=any";
const network = `# ${units.egress} limits this to TLS to public addresses.\nRestrictAddressFamilies=AF_INET AF_INET6`;

/** The first line of the connection; service/builder/build/hugo.ts reads it. */
const build = (id: string): string => `pushgate-hugo build=${id}`;

/** Lines of the unit for content outside the repository, or for that of the repository. */
function linesOfContent({ name, site: { content, folder, hugo } }: SiteHook) {
  const program = unitWord(hugo.path);
  const folders = { ...inside, source: unitWord(sourceOf(folder)) };
  if (content === undefined)
    return {
      finding: "",
      begin: [
        "# Hugo then prints which folders are the content. If that fails, Hugo gives the reason below.",
        "# One shell runs all three, because systemd takes 40 ms of a core to enter this unit's root.",
        `ExecStartPre=/bin/sh -c 'echo "${build("$$INVOCATION_ID")}"; "$$@"; echo "${endOfFolders}"' sh ${mountsCommand(program, folders).join(" ")}`,
      ].join("\n"),
      hugo: [program, ...hugoArguments({ ...folders, content: undefined })],
      content: "",
    };
  const unit = units.content(name);
  return {
    finding: `Wants=${unit}\nAfter=${unit}`,
    begin: `ExecStartPre=/bin/echo "${build("$" + "{INVOCATION_ID}")}"`,
    hugo: [...[contentProgram, "run", noteOfContent(name), program], ...hugoArguments(folders)],
    content: [
      `# systemd follows links in this path; ExecStart= compares the folder with the one that ${unit} found.`,
      `BindReadOnlyPaths=-${unitWord(content)}:/content`,
    ].join("\n"),
  };
}

export function hugoService(hook: SiteHook): HostFile {
  const { name, site } = hook;
  const { hugo, limits, folder, writers } = site;
  const { seconds, cpuPercent, memoryMiB, tasks, releaseMiB } = limits;
  const values = {
    ...{ hook: name, target: units.site(name), seconds, cpuPercent, memoryMiB, tasks, releaseMiB },
    ...linesOfContent(hook),
    source: unitWord(sourceOf(folder)),
    environment: Object.entries(hugoEnvironment(inside.cache, hugo)).map(assigned).join("\n"),
    user: hugoUser(name),
    groups:
      writers === undefined || site.content === undefined
        ? ""
        : `# For content that only the group of \`site.writers\` may read.\nSupplementaryGroups=${writers}`,
    root: hugoRoot,
    result: `${hugoResults}/${name}`,
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
