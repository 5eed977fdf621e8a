/** Layer 9, the builder: for each site, what takes requests, runs git and publishes, and what starts it. */
import { posix } from "node:path";
import { shares } from "../../../service/builder/build/disk.ts";
import type { BuilderSettings } from "../../../service/builder/settings.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import type { HostFact, HostFile } from "../../apply/layer.ts";
import { sha256 } from "../../apply/manifest.ts";
import { call } from "../../apply/shell.ts";
import { isReported, mailOf, type SiteHook, sitesOf, withPreviews } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { buildPaths } from "../../config/site-schema.ts";
import * as kit from "../kit.ts";
import { builderPaths, builderUser, paths, reporterUser, runFolders, units } from "../paths.ts";
import { type ProgramHashes, programsOf } from "../programs/programs.ts";
import { spoolGroup } from "../receiver/receiver.ts";
import { loadCredential } from "../secrets/secrets.ts";
import { toolIds } from "../tools/tools.ts";
import { fetcherService, nodeOf } from "./fetcher.ts";
import { generatorFiles, gitConfiguration, startProgram } from "./generator.ts";
import { reporterFiles, reporterTemplates } from "./reporter.ts";

const { spool, requests, rootRequests, reports, sites } = paths;

const MiB = 1 << 20;
const settingsPath = (hook: string) => `${paths.builderSettings}/${hook}.json` as const;
const agentPath = (hook: string) => `${runFolders(hook).agent}/socket` as const;
const knownHostsPath = (hook: string) => `${paths.builderSettings}/${hook}.known_hosts` as const;

export function builderSettings(hook: SiteHook): BuilderSettings {
  const { name, repository, branch, site, previews, setsStatus = false } = hook;
  const { content, folder, folders, assets, submodules, reconcileMinutes } = site;
  const { releaseMiB, pagesPercent, seconds, memoryMiB, tasks } = site.limits;
  return {
    ...{ hook: name, repository, branch },
    ...(previews && {
      previews: { branches: previews.branches, keep: previews.keep, url: `https://${previews.hostname}/` },
    }),
    spool: `${spool}/${name}`,
    requests: `${requests}/${name}`,
    rootRequests: `${rootRequests}/${name}`,
    site: `${sites}/${name}`,
    ...(content !== undefined && { content }),
    ...(folder !== undefined && { folder }),
    // `.gitmodules` is at the top of a repository, wherever the site is.
    paths: site.paths ?? buildPaths.map((path) => posix.join(path === ".gitmodules" ? "" : (folder ?? ""), path)),
    folders: Object.keys(folders),
    ...{ assets, submodules, reconcileMinutes },
    ...(repositoryOf(repository).ssh && { knownHosts: knownHostsPath(name), agent: agentPath(name) }),
    ...(isReported(hook) && {
      reports: {
        ...{ folder: `${reports}/${name}`, status: setsStatus, purge: site.purge },
        notify: site.notify.map(({ name, published }) => ({ name, published })),
      },
    }),
    generator: {
      ...{ socket: runFolders(name).socket, result: `${runFolders(name).result}/last` },
      digest: sha256(JSON.stringify([site.hugo, site.tools, site.npm])),
    },
    fetcher: {
      ...{ socket: runFolders(name).fetcher, result: `${runFolders(name).result}/fetcher` },
      registries: site.registries,
      node: nodeOf(hook),
    },
    limits: { releaseBytes: releaseMiB * MiB, pagesPercent, seconds, memoryMiB, tasks },
  };
}

/** git indexes a pack in memory, and Node takes 100 MiB. */
const leastMemoryMiB = 512;
const ofSockets = [units.generatorSocket, units.fetcherSocket, units.stopSocket];
const members = [...builderPaths, units.reconcileTimer, ...ofSockets];

const sockets = (hook: string) => [...ofSockets, units.mailSocket].map((socket) => socket(hook));

const moreMembers = (hook: SiteHook) => [
  ...(hook.site.schedule === undefined ? [] : [units.scheduleTimer]),
  ...(isReported(hook) ? [units.reportPath] : []),
  ...(mailOf(hook).length === 0 ? [] : [units.mailSocket]),
];

function templates(): HostFile[] {
  const unit = (name: string, values: kit.Values, from = name) =>
    kit.unitFile(import.meta.url, name, { target: units.site("%i"), ...values }, from);
  const own = runFolders("%i");
  const request = { rootRequests, paths: builderPaths.map((path) => path("%i")), sandbox: kit.sandbox("helper") };
  const reconciled = { request: "tick", requests: "a comparison of %i with its repository" };
  const scheduled = { request: "schedule", requests: "a build of %i although no commit is new" };
  return [
    kit.unitFile(import.meta.url, units.site(), { members: members.map((member) => member("%i")) }),
    unit(units.build(), {
      ...{ egress: units.egress, egressProgram: `${paths.lib}/egress` },
      ...{ program: paths.builder, settings: settingsPath("%i"), spoolGroup, spool, requests, rootRequests, sites },
      ...{ root: kit.ownRoot(own.builderRoot), shared: own.own, knownHosts: knownHostsPath("%i") },
      sockets: ofSockets.map((socket) => socket("%i")),
      ...{ generator: units.generator("%i", "*"), fetcher: units.fetcher("%i", "*") },
      sandbox: kit.sandbox("node"),
    }),
    unit(units.buildPath(), { starts: "the builder of %i for deliveries", folder: spool }),
    unit(units.requestPath(), {
      ...{ builder: units.build("%i"), timer: units.reconcileTimer("%i") },
      ...{ requests, rootRequests, sites },
    }),
    unit(units.reconcileTimer(), {}),
    unit(units.reconcile(), { ...request, ...reconciled }),
    unit(units.scheduleTimer(), {}),
    unit(units.schedule(), { ...request, ...scheduled }, units.reconcile()),
    // Keeps the deploy key from the processes that git starts and from the one that reads what the generator wrote.
    unit(units.agent(), {
      ...{ deployKey: loadCredential("%i", "deployKey"), socket: agentPath("%i"), sandbox: kit.sandbox("agent") },
      runtimeDirectory: own.agent.replace("/run/", ""),
    }),
    kit.unitFile(import.meta.url, units.content(), { root: own.generatorRoot, sandbox: kit.sandbox("helper") }),
  ];
}

function filesOf(hook: SiteHook, host: Pick<Host, "name">, zoneId: string): HostFile[] {
  const { name, repository, site } = hook;
  const { reconcileMinutes, schedule, knownHosts, limits } = site;
  const more = moreMembers(hook).map((member) => member(name));
  const ofSsh = repositoryOf(repository).ssh;
  const memoryMiB = Math.max(limits.memoryMiB, leastMemoryMiB);
  const agent = units.agent(name);
  return [
    kit.jsonFile(settingsPath(name), builderSettings(hook)),
    ...(ofSsh ? [kit.file(knownHostsPath(name), `${knownHosts.join("\n")}\n`)] : []),
    ...kit.instanceFile(units.site(name), more.length === 0 ? [] : ["[Unit]", `Wants=${more.join(" ")}`]),
    ...kit.instanceFile(agent, ofSsh ? ["[Service]", `User=${builderUser(name)}`] : []),
    ...kit.instanceFile(units.build(name), [
      ...(ofSsh ? ["[Unit]", `Wants=${agent}`] : []),
      "[Service]",
      `User=${builderUser(name)}`,
      ...(isReported(hook) ? [`BindPaths=${reports}/${name}`] : []),
      `CPUQuota=${limits.cpuPercent}%`,
      `MemoryMax=${memoryMiB}M`,
      `TasksMax=${limits.tasks}`,
      "# Limits of each process, for a kernel that does not count memory. LimitDATA= counts memory before it is used.",
      `LimitDATA=${2 * memoryMiB}M`,
      `LimitFSIZE=${shares.ofSite * limits.releaseMiB}M`,
    ]),
    ...kit.instanceFile(units.reconcileTimer(name), ["[Timer]", `OnUnitActiveSec=${reconcileMinutes}min`]),
    ...kit.instanceFile(units.scheduleTimer(name), schedule === undefined ? [] : ["[Timer]", `OnCalendar=${schedule}`]),
    ...(isReported(hook) ? reporterFiles(hook, host, zoneId) : []),
    ...generatorFiles(hook),
    fetcherService(hook, settingsPath(name), memoryMiB),
  ];
}

const rootFolder = (path: string): kit.Folder => [path, "755", "root:root"];

const commonFolders = (hooks: readonly SiteHook[]): kit.Folder[] =>
  [...[requests, rootRequests, sites, paths.generator, paths.roots], ...(hooks.some(isReported) ? [reports] : [])].map(
    rootFolder,
  );

/**
 * A member of the group `site.writers` requests a build by making a file, and cannot list the folder; without the group
 * only root and the builder can. Root's requests have a folder of their own: the builder removes them, no member enters.
 */
export function foldersOf(hook: SiteHook): kit.Folder[] {
  const { name, site } = hook;
  const [builder, own] = [builderUser(name), runFolders(name)];
  const owner = `${builder}:${builder}`;
  return [
    site.writers === undefined
      ? [`${requests}/${name}`, "700", owner]
      : [`${requests}/${name}`, "1730", `${builder}:${site.writers}`],
    [`${rootRequests}/${name}`, "770", `root:${builder}`],
    [`${sites}/${name}`, "755", owner],
    [`${sites}/${name}/work`, "700", owner],
    // Root writes there how a build ended, and systemd makes the mount points of the units in their roots.
    ...[own.own, own.result, own.roots, own.builderRoot, own.generatorRoot, own.fetcherRoot].map(rootFolder),
    ...(isReported(hook) ? ([[`${reports}/${name}`, "770", `${builder}:${reporterUser(name)}`]] as const) : []),
  ];
}

function factsOf(hooks: readonly SiteHook[]): HostFact[] {
  return [
    ...hooks.map((hook) => ({
      name: `units of ${units.site(hook.name)} that are not active`,
      read: call("not_active", ...[units.site, ...members, ...moreMembers(hook)].map((unit) => unit(hook.name))),
      want: "none",
    })),
    {
      name: "the builder's units whose files changed after systemd read them",
      read: call("stale", "pushgate-*@*", ...sockets("*")),
      want: "none",
    },
    kit.modesFact("the builder's folders", commonFolders(hooks)),
    // A fact for each site: a host's answer is cut at 2 KiB, which the folders of six sites exceed.
    ...hooks.map((hook) => kit.modesFact(`the builder's folders of ${hook.name}`, foldersOf(hook))),
  ];
}

export const builderPrograms = ["builder", "fetcher", "reporter"] as const;

export function builderLayer(settings: Settings, host: Pick<Host, "name">, made: ProgramHashes = {}, zoneId = "") {
  const hooks = sitesOf(settings);
  const startScript = ["../others.sh", "generator.sh"].map((name) => kit.textBeside(import.meta.url, name));
  const namesOf = (some: readonly { readonly name: string }[]) => some.map(({ name }) => name);
  const { values, facts, shared } = programsOf(builderPrograms, made);
  return kit.layerOf(import.meta.url, "builder", {
    shared,
    values: {
      ...values,
      ...{ spool, requests, rootRequests, reports, sites, generator: paths.generator, roots: paths.roots },
      ...{ tmpfiles: paths.builderTmpfiles, siteTarget: units.site("%i") },
      // systemd notes there when a timer last elapsed.
      note: `/var/lib/systemd/timers/stamp-${units.scheduleTimer("%i")}`,
      hooks: namesOf(withPreviews(settings.hooks)),
      built: namesOf(hooks),
      reported: namesOf(hooks.filter(isReported)),
      scheduled: namesOf(hooks.filter(({ site }) => site.schedule !== undefined)),
      ...{ settings: settingsPath("%i"), reconcile: units.reconcile("%i") },
      ...{ tools: paths.tools, named: toolIds(settings) },
      all: [
        "pushgate-*@%i.*",
        ...sockets("%i"),
        ...[units.generator, units.fetcher, units.mail].map((unit) => unit("%i", "*")),
      ],
    },
    files: [
      kit.file(paths.builderTmpfiles, kit.tmpfilesOf([...commonFolders(hooks), ...hooks.flatMap(foldersOf)])),
      kit.program(startProgram, ["#!/bin/sh", ...startScript].join("\n"), { fixed: true }),
      kit.file(gitConfiguration, kit.textBeside(import.meta.url, "gitconfig")),
      kit.file(paths.relay, kit.textBeside(import.meta.url, "relay.cjs"), { fixed: true }),
      ...templates(),
      ...reporterTemplates(),
      ...hooks.flatMap((hook) => filesOf(hook, host, zoneId)),
    ],
    owns: [
      paths.builderTmpfiles,
      startProgram,
      gitConfiguration,
      paths.relay,
      `${paths.builderSettings}/*`,
      `${paths.reporterSettings}/*`,
      // "pushgate-*@*" is for the drop-ins of all instances, too: pushgate-@.service.d.
      ...kit.dropIns("pushgate-*@*", ...["generator", "fetcher", "stop", "mail"].map((kind) => `pushgate-${kind}-*`)),
      ...["path", "service", "target", "timer"].map((type) => `${paths.units}/pushgate-*@*.${type}`),
      ...sockets("*").map((unit) => `${paths.units}/${unit}`),
    ],
    facts: [
      ...facts,
      ...factsOf(hooks),
      { name: `what is in ${paths.tools} for no site`, read: "unnamed_tools | grep . || echo none", want: "none" },
    ],
    timeout: 90,
  });
}
