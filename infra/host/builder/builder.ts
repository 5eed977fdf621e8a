/**
 * Layer 9, the builder: for each hook with a site, the service that takes deliveries and requests, runs git and publishes;
 * the .path unit that starts it; the timer that has it compare the site with its repository; and Hugo's units (hugo.ts).
 * The site layer starts the .path unit and the timer once the web root is a link to a release.
 */
import type { BuilderSettings } from "../../../service/builder/settings.ts";
import type { HostFact, HostFile, HostLayer } from "../../apply/layer.ts";
import { quote } from "../../apply/shell.ts";
import { remoteOf, type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { dropIns, enabledAndActive, file, layerOf, unitFile } from "../kit.ts";
import { builderUser, paths, units } from "../paths.ts";
import { spoolGroup } from "../receiver/receiver.ts";
import { sandbox } from "../sandbox.ts";
import { deployKeyPath } from "../secrets/secrets.ts";
import { hugoRoot, hugoService, hugoSocketPath } from "./hugo.ts";

const { spool, requests } = paths;

const MiB = 1 << 20;

/** A build starts after so long without a delivery or request: a burst of pushes is one build. */
const debounceMilliseconds = 1_000;

const settingsPath = (hook: string) => `${paths.builderSettings}/${hook}.json` as const;
const knownHostsPath = (hook: string) => `${paths.builderSettings}/${hook}.known_hosts` as const;

/** What `service/builder` reads. */
export function builderSettings({ name, repository, branch, site }: SiteHook): BuilderSettings {
  const { content, webRoot, submodules } = site;
  const { releaseMiB, pagesPercent, seconds, memoryMiB, tasks } = site.limits;
  return {
    hook: name,
    repository,
    branch,
    spool: `${spool}/${name}`,
    asks: `${requests}/${name}`,
    site: `${paths.sites}/${name}`,
    content,
    webRoot,
    paths: site.paths,
    keep: site.keep,
    assets: site.assets,
    submodules,
    ...(remoteOf(repository).ssh && { knownHosts: knownHostsPath(name) }),
    hugo: { socket: hugoSocketPath(name) },
    limits: { releaseBytes: releaseMiB * MiB, pagesPercent, seconds, debounceMilliseconds, memoryMiB, tasks },
  };
}

/** ProtectHome= hides these folders, and a site may be in them. */
const inHome = (path: string): boolean => /^\/(home|root|run\/user)(\/|$)/.test(path);

/** Of all homes, only the two folders of the site are visible. */
function homes({ content, webRoot }: SiteHook["site"]): string {
  const shown = [content, webRoot].filter(inHome);
  return shown.length === 0
    ? "ProtectHome=yes"
    : `# Of all homes, only the folders of this site; each may be missing.
ProtectHome=tmpfs
${shown.map((path) => `BindReadOnlyPaths=-${path}`).join("\n")}`;
}

/** git indexes a pack in memory, and Node takes 100 MiB. */
const leastMemoryMiB = 512;

function buildService({ name, repository, site }: SiteHook): HostFile {
  const values = {
    hook: name,
    egress: units.egress,
    egressProgram: `${paths.lib}/egress`,
    program: paths.builder,
    settings: settingsPath(name),
    deployKey: remoteOf(repository).ssh ? `LoadCredentialEncrypted=deploy-key:${deployKeyPath(name)}` : "",
    user: builderUser,
    spoolGroup,
    spool,
    requests,
    sites: paths.sites,
    cpuPercent: site.limits.cpuPercent,
    memoryMiB: Math.max(site.limits.memoryMiB, leastMemoryMiB),
    tasks: site.limits.tasks,
    sandbox: sandbox(
      "node",
      "# Node calls pkey_alloc, git and ssh set limits and owners: they go on after EPERM, not after a signal.",
      homes(site),
    ),
  };
  return unitFile(import.meta.url, units.build(name), values, "pushgate-build.service");
}

/** The files of one hook. */
function filesOf(hook: SiteHook): HostFile[] {
  const { name, repository, site } = hook;
  const unit = (unitName: string, templateName: string, values: Record<string, string | number>) =>
    unitFile(import.meta.url, unitName, { hook: name, ...values }, templateName);
  return [
    file(settingsPath(name), `${JSON.stringify(builderSettings(hook), null, 2)}\n`),
    ...(remoteOf(repository).ssh ? [file(knownHostsPath(name), `${site.knownHosts.join("\n")}\n`)] : []),
    buildService(hook),
    unit(units.buildPath(name), "pushgate-build.path", { spool, requests }),
    unit(units.reconcile(name), "pushgate-reconcile.service", { requests }),
    unit(units.reconcileTimer(name), "pushgate-reconcile.timer", { minutes: site.reconcileMinutes }),
    unit(units.hugoSocket(name), "pushgate-hugo.socket", { socket: hugoSocketPath(name), user: builderUser }),
    hugoService(hook),
  ];
}

/** Path, mode and owner as `stat` prints them. */
type Folder = readonly [path: string, mode: string, owner: string];

const common: readonly Folder[] = [requests, paths.sites, paths.hugo, hugoRoot].map((path) => [
  path,
  "755",
  "root:root",
]);

/**
 * A member of the group `site.writers` requests a build by making a file, and cannot list the folder; without the group
 * only root and the builder can. `.taken` exists before others may write beside it, as its owner could stop all builds.
 */
function foldersOf({ name, site: { writers } }: SiteHook): Folder[] {
  const owner = `${builderUser}:${builderUser}`;
  return [
    writers === undefined
      ? [`${requests}/${name}`, "700", owner]
      : [`${requests}/${name}`, "1730", `${builderUser}:${writers}`],
    [`${requests}/${name}/.taken`, "700", owner],
    [`${spool}/${name}/.taken`, "700", owner],
    [`${paths.sites}/${name}`, "755", owner],
    [`${paths.sites}/${name}/work`, "700", owner],
  ];
}

const tmpfilesLine = ([path, mode, owner]: Folder): string =>
  `d ${path} ${mode.padStart(4, "0")} ${owner.replace(":", " ")} -\n`;

function factsOf(sites: readonly SiteHook[]): HostFact[] {
  const hugos = new Map(sites.map(({ site: { hugo } }) => [`${hugo.path} ${hugo.minimum}`, hugo]));
  const folders = (name: string, all: readonly Folder[]): HostFact => ({
    name,
    read: `modes ${all.map(([path]) => path).join(" ")}`,
    want: all.map((folder) => folder.join(" ")).join("\n"),
  });
  const read = sites.flatMap(({ name }) =>
    [units.build, units.buildPath, units.hugoSocket, units.reconcileTimer].map((unit) => unit(name)),
  );
  return [
    ...[...hugos.values()].map(({ path, minimum }) => ({
      name: `${path} is`,
      read: `hugo_version ${quote(path)} ${minimum}`,
      want: `${minimum} or later`,
    })),
    ...sites.map(({ name }) => enabledAndActive(units.hugoSocket(name))),
    {
      name: "the builder's units whose files changed after systemd read them",
      read: `stale ${read.join(" ")}`,
      want: "none",
    },
    folders("the builder's folders", common),
    // A fact for each site: a host's answer is cut at 2 KiB, which the folders of six sites exceed.
    ...sites.map((hook) => folders(`the builder's folders of ${hook.name}`, foldersOf(hook))),
    {
      name: `group ${spoolGroup}, by which the builder takes deliveries`,
      read: `getent group ${spoolGroup} >/dev/null && echo there`,
      want: "there",
    },
  ];
}

export function builderLayer(settings: Settings): HostLayer {
  const sites = sitesOf(settings);
  return layerOf(import.meta.url, "builder", {
    values: {
      spool,
      requests,
      sites: paths.sites,
      hugo: paths.hugo,
      tmpfiles: paths.builderTmpfiles,
      hooks: settings.hooks.map(({ name }) => name),
      writers: sites.flatMap(({ site: { writers } }) => writers ?? []),
      sockets: sites.map(({ name }) => units.hugoSocket(name)),
    },
    files: [
      file(paths.builderTmpfiles, [...common, ...sites.flatMap(foldersOf)].map(tmpfilesLine).join("")),
      ...sites.flatMap(filesOf),
    ],
    owns: [
      paths.builderTmpfiles,
      `${paths.builderSettings}/*`,
      ...dropIns("pushgate-build-*", "pushgate-hugo-*", "pushgate-reconcile-*"),
      ...[
        "build-*.service",
        "build-*.path",
        "reconcile-*.service",
        "reconcile-*.timer",
        "hugo-*.service",
        "hugo-*.socket",
      ].map((name) => `${paths.units}/pushgate-${name}`),
    ],
    facts: factsOf(sites),
    timeout: 90,
  });
}
