/**
 * Layer 9, the builder: for each hook with a site, the service that takes deliveries and requests, runs git and publishes;
 * the .path unit that starts it; the timers that have it compare the site with its repository, and build it by a schedule;
 * Hugo's units (hugo.ts), and the reporter's (reporter.ts). The site layer starts the .path unit and the timers once the
 * web root is a link to a release.
 */

import { shares } from "../../../service/builder/build/shares.ts";
import type { BuilderSettings } from "../../../service/builder/settings.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import type { HostFact, HostFile, HostLayer } from "../../apply/layer.ts";
import { quote } from "../../apply/shell.ts";
import { isReported, type SiteHook, sitesOf } from "../../config/derived.ts";
import { buildPaths } from "../../config/schema.ts";
import type { Host, Settings, Site } from "../../config/settings.ts";
import { dropIns, enabledAndActive, file, layerOf, program, textBeside, unitFile, unitWord } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { spoolGroup } from "../receiver/receiver.ts";
import { sandbox } from "../sandbox.ts";
import { deployKeyPath } from "../secrets/secrets.ts";
import { commonFolders, type Folder, foldersOf, tmpfilesOf } from "./folders.ts";
import { contentProgram, hugoResults, hugoRoot, hugoService, hugoSocketPath, noteOfContent } from "./hugo.ts";
import { reporterFiles } from "./reporter.ts";

const { spool, requests, rootRequests, reports } = paths;

const MiB = 1 << 20;

const settingsPath = (hook: string) => `${paths.builderSettings}/${hook}.json` as const;
const agentPath = (hook: string) => `/run/pushgate-agent-${hook}/socket` as const;
const knownHostsPath = (hook: string) => `${paths.builderSettings}/${hook}.known_hosts` as const;

/** `.gitmodules` is at the top of a repository, wherever the site is. */
const defaultPaths = (folder?: string): string[] =>
  buildPaths.map((path) => (folder === undefined || path === ".gitmodules" ? path : `${folder}/${path}`));

/** What `service/builder` reads. */
export function builderSettings(hook: SiteHook): BuilderSettings {
  const { name, repository, branch, site, setsStatus = false } = hook;
  const { content, folder, folders, submodules } = site;
  const { releaseMiB, pagesPercent, seconds, memoryMiB, tasks } = site.limits;
  return {
    hook: name,
    repository,
    branch,
    spool: `${spool}/${name}`,
    requests: `${requests}/${name}`,
    rootRequests: `${rootRequests}/${name}`,
    site: `${paths.sites}/${name}`,
    ...(content !== undefined && { content }),
    ...(folder !== undefined && { folder }),
    paths: site.paths ?? defaultPaths(folder),
    folders: Object.keys(folders),
    assets: site.assets,
    submodules,
    ...(repositoryOf(repository).ssh && { knownHosts: knownHostsPath(name), agent: agentPath(name) }),
    ...(isReported(hook) && {
      reports: { folder: `${reports}/${name}`, status: setsStatus, notify: site.notify !== undefined },
    }),
    hugo: { socket: hugoSocketPath(name), result: `${hugoResults}/${name}/last` },
    limits: { releaseBytes: releaseMiB * MiB, pagesPercent, seconds, memoryMiB, tasks },
  };
}

/** git indexes a pack in memory, and Node takes 100 MiB. */
const leastMemoryMiB = 512;

function buildService(hook: SiteHook): HostFile {
  const { name, repository, site } = hook;
  const memoryMiB = Math.max(site.limits.memoryMiB, leastMemoryMiB);
  const values = {
    hook: name,
    egress: units.egress,
    egressProgram: `${paths.lib}/egress`,
    program: paths.builder,
    settings: settingsPath(name),
    agent: repositoryOf(repository).ssh ? `Wants=${units.agent(name)}\nAfter=${units.agent(name)}` : "",
    user: builderUser(name),
    spoolGroup,
    spool,
    requests,
    rootRequests,
    sites: paths.sites,
    reports: isReported(hook)
      ? `ReadWritePaths=${reports}/${name}\nTemporaryFileSystem=${reports}:ro\nBindPaths=${reports}/${name}`
      : "",
    cpuPercent: site.limits.cpuPercent,
    memoryMiB,
    dataMiB: 2 * memoryMiB,
    siteMiB: shares.ofSite * site.limits.releaseMiB,
    tasks: site.limits.tasks,
    sandbox: sandbox(
      "node",
      "# Node calls pkey_alloc, git and ssh set limits and owners: they go on after EPERM, not after a signal.",
    ),
  };
  return unitFile(import.meta.url, units.build(name), values, "pushgate-build.service");
}

/** Keeps the deploy key from the processes that git starts and from the one that reads what Hugo wrote. */
const agentService = ({ name }: SiteHook): HostFile =>
  unitFile(
    import.meta.url,
    units.agent(name),
    {
      hook: name,
      deployKey: deployKeyPath(name),
      user: builderUser(name),
      socket: agentPath(name),
      sandbox: sandbox("agent"),
    },
    "pushgate-agent.service",
  );

/** The files of one hook. */
function filesOf(hook: SiteHook, host: Pick<Host, "name">): HostFile[] {
  const { name, repository, site } = hook;
  const unit = (unitName: string, templateName: string, values: Record<string, string | number>) =>
    unitFile(import.meta.url, unitName, { hook: name, ...values }, templateName);
  return [
    file(settingsPath(name), `${JSON.stringify(builderSettings(hook), null, 2)}\n`),
    ...(repositoryOf(repository).ssh
      ? [file(knownHostsPath(name), `${site.knownHosts.join("\n")}\n`), agentService(hook)]
      : []),
    buildService(hook),
    unit(units.buildPath(name), "pushgate-build.path", { spool, requests, rootRequests, sites: paths.sites }),
    unit(units.reconcile(name), "pushgate-reconcile.service", {
      ...{ rootRequests, request: "tick", requests: `a comparison of ${name} with its repository` },
    }),
    unit(units.reconcileTimer(name), "pushgate-reconcile.timer", { minutes: site.reconcileMinutes }),
    ...scheduleFiles(hook),
    ...contentFiles(hook),
    ...(isReported(hook) ? reporterFiles(hook, host) : []),
    unit(units.hugoSocket(name), "pushgate-hugo.socket", { socket: hugoSocketPath(name), user: builderUser(name) }),
    hugoService(hook),
    unit(units.stopSocket(name), "pushgate-stop.socket", { socket: hugoSocketPath(name), user: builderUser(name) }),
    unit(units.stop(name), "pushgate-stop@.service", { sites: paths.sites }),
  ];
}

/** A build although no commit is new. */
function scheduleFiles({ name, site: { schedule } }: SiteHook): HostFile[] {
  if (schedule === undefined) return [];
  const unit = (unitName: string, templateName: string, values: Record<string, string>) =>
    unitFile(import.meta.url, unitName, { hook: name, ...values }, templateName);
  return [
    unit(units.schedule(name), "pushgate-reconcile.service", {
      ...{ rootRequests, request: "schedule", requests: `a build of ${name} although no commit is new` },
    }),
    unit(units.scheduleTimer(name), "pushgate-schedule.timer", { schedule }),
  ];
}

/** Of content outside the repository. */
const contentFiles = ({ name, site: { content } }: SiteHook): HostFile[] =>
  content === undefined
    ? []
    : [
        unitFile(
          import.meta.url,
          units.content(name),
          {
            hook: name,
            program: contentProgram,
            content: unitWord(content),
            note: `${hugoRoot}${noteOfContent(name)}`,
            root: hugoRoot,
          },
          "pushgate-content.service",
        ),
      ];

const hasContent = (site: Pick<Site, "content">): boolean => site.content !== undefined;

const contentScript = (): string =>
  ["#!/bin/sh", textBeside(import.meta.url, "../others.sh"), textBeside(import.meta.url, "content.sh")].join("\n");

function factsOf(sites: readonly SiteHook[]): HostFact[] {
  const hugos = new Map(
    sites.map(({ name, site: { hugo } }) => [`${hugo.path} ${hugo.minimum}`, { ...hugo, user: hugoUser(name) }]),
  );
  const folders = (name: string, all: readonly Folder[]): HostFact => ({
    name,
    read: `modes ${all.map(([path]) => path).join(" ")}`,
    want: all.map((folder) => folder.join(" ")).join("\n"),
  });
  const read = sites.flatMap((hook) => {
    const { name, site } = hook;
    return [
      ...[units.build, units.buildPath, ...(hasContent(site) ? [units.content] : []), units.hugoSocket],
      ...[units.stopSocket, units.reconcileTimer, ...(site.schedule === undefined ? [] : [units.scheduleTimer])],
      ...(isReported(hook) ? [units.report, units.reportPath] : []),
    ].map((unit) => unit(name));
  });
  return [
    ...[...hugos.values()].map(({ path, minimum, user }) => ({
      name: `${path} is`,
      read: `hugo_version ${quote(path)} ${minimum} ${user}`,
      want: `${minimum} or later`,
    })),
    ...sites.map(({ name }) => enabledAndActive(units.hugoSocket(name))),
    ...sites.filter(isReported).map(({ name }) => enabledAndActive(units.reportPath(name))),
    {
      name: "the builder's units whose files changed after systemd read them",
      read: `stale ${read.join(" ")}`,
      want: "none",
    },
    folders("the builder's folders", commonFolders(sites)),
    // A fact for each site: a host's answer is cut at 2 KiB, which the folders of six sites exceed.
    ...sites.map((hook) => folders(`the builder's folders of ${hook.name}`, foldersOf(hook))),
    {
      name: `group ${spoolGroup}, by which the builder takes deliveries`,
      read: `getent group ${spoolGroup} >/dev/null && echo there`,
      want: "there",
    },
  ];
}

export function builderLayer(settings: Settings, host: Pick<Host, "name">): HostLayer {
  const sites = sitesOf(settings);
  return layerOf(import.meta.url, "builder", {
    shared: ["others.sh"],
    values: {
      spool,
      requests,
      rootRequests,
      sites: paths.sites,
      hugo: paths.hugo,
      reports,
      tmpfiles: paths.builderTmpfiles,
      hooks: settings.hooks.map(({ name }) => name),
      writers: sites.flatMap(({ site: { writers } }) => writers ?? []),
      started: sites.flatMap((hook) => [
        units.hugoSocket(hook.name),
        ...(isReported(hook) ? [units.reportPath(hook.name)] : []),
      ]),
    },
    files: [
      file(paths.builderTmpfiles, tmpfilesOf(sites)),
      ...(sites.some(({ site }) => hasContent(site)) ? [program(contentProgram, contentScript())] : []),
      ...sites.flatMap((hook) => filesOf(hook, host)),
    ],
    owns: [
      paths.builderTmpfiles,
      contentProgram,
      `${paths.builderSettings}/*`,
      `${paths.reporterSettings}/*`,
      ...dropIns(
        ...["agent", "build", "content", "hugo", "reconcile", "report", "schedule", "stop"].map(
          (kind) => `pushgate-${kind}-*`,
        ),
      ),
      ...[
        "agent-*.service",
        "build-*.service",
        "build-*.path",
        "content-*.service",
        "reconcile-*.service",
        "reconcile-*.timer",
        "report-*.service",
        "report-*.path",
        "schedule-*.service",
        "schedule-*.timer",
        "hugo-*.service",
        "hugo-*.socket",
        "stop-*.service",
        "stop-*.socket",
      ].map((name) => `${paths.units}/pushgate-${name}`),
    ],
    facts: factsOf(sites),
    timeout: 90,
  });
}
