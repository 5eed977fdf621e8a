/**
 * Layers 7 and 8 on the host: one socket for each source set, whose allowlist the kernel enforces, and the receiver's
 * service in its sandbox.
 * - The allowlist is on the .socket: IPAddressAllow= on a service does not hold for inherited sockets.
 * - The sockets have a slice of their own: a socket also admits what a slice above it admits, and does not show that.
 * - `localhost` is in no allowlist: an nginx that lost its transparent bind is rejected.
 */
import ipaddr from "ipaddr.js";
import { receiverMemoryMiB } from "../../../service/limits.ts";
import { metricsName, type ReceiverSettings } from "../../../service/receiver/settings.ts";
import type { HostFact, HostFile } from "../../apply/layer.ts";
import { call } from "../../apply/shell.ts";
import { previewsName, type SourceSet, sourceSets, withPreviews } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { anywhere, loopback } from "../../networks.ts";
import { guardConfiguration, mustReject } from "../guard/guard.ts";
import * as kit from "../kit.ts";
import { paths, receiverUser, units } from "../paths.ts";
import { type ProgramHashes, programsOf } from "../programs/programs.ts";
import { mark } from "../routing/routing.ts";
import { credentialFiles, loadCredential } from "../secrets/secrets.ts";

/** Top level: only the root slice is above it. */
export const slice = "pushgate.slice";
/** Its members may take deliveries out of the spool. The receiver's primary group, so that its sandbox maps it. */
export const spoolGroup = "pushgate-spool";
/** Its members may read the metrics. It has none until the operator adds one. */
export const metricsGroup = "pushgate-metrics";

/** A range as systemd prints it, so that lists can be compared as text. */
export function asSystemd(cidr: string): string {
  const [address = "", bits] = cidr.split("/");
  const parsed = ipaddr.parse(address);
  return `${parsed.toString()}/${bits ?? (parsed.kind() === "ipv4" ? 32 : 128)}`;
}

export function receiverSettings({ hooks, limits }: Settings): ReceiverSettings {
  const { proxyRate: _, proxyBurst: __, ...ofReceiver } = limits;
  const declared = hooks.map(({ name, gitHost, branch, site }) => ({
    ...{ name, gitHost, branch },
    ...(site && { statusFile: `${paths.sites}/${name}/status.json` }),
    ...(site?.previews && { previews: { hook: previewsName(name), branches: site.previews.branches } }),
  }));
  return { spool: paths.spool, hooks: declared, limits: ofReceiver };
}

const socketsOf = (settings: Settings): string[] => sourceSets(settings).map(({ name }) => units.socket(name));

const socketUnit = ({ name, port, cidrs }: SourceSet): HostFile => {
  const values = {
    ...{ sourceSet: name, port, slice, loopback4: loopback.v4, loopback6: loopback.v6 },
    // In the form that `ss` prints.
    mark: `0x${mark.toString(16)}`,
    routing: units.routing,
    service: units.receiver,
    allow: cidrs.map((cidr) => `IPAddressAllow=${cidr}`).join("\n"),
  };
  return kit.unitFile(import.meta.url, units.socket(name), values, "pushgate-receiver.socket");
};

const readAtStart = (settings: Settings): string => {
  const credentials = credentialFiles(settings).map((name) => `${paths.credentials}/${name}`);
  return kit.readAtStart([paths.receiver, paths.receiverSettings, ...credentials], units.receiver);
};

export function serviceUnit(settings: Settings): HostFile {
  const sockets = [...socketsOf(settings), units.metricsSocket];
  return kit.unitFile(import.meta.url, units.receiver, {
    sockets,
    inherited: sockets.map((socket) => `Sockets=${socket}`).join("\n"),
    credentials: settings.hooks.map(({ name }) => loadCredential(name)).join("\n"),
    ...{ program: paths.receiver, settings: paths.receiverSettings, spool: paths.spool },
    note: kit.noting(units.receiver, readAtStart(settings)),
    ...{ user: receiverUser, group: spoolGroup, slice },
    memoryMiB: receiverMemoryMiB(settings.limits),
    sandbox: kit.sandbox("node"),
  });
}

/** Group-writable and setgid: the builder removes the files of the deliveries it takes, and new files belong to the group. */
const folderOf = (hook: string): kit.Folder => [`${paths.spool}/${hook}`, "2770", `${receiverUser}:${spoolGroup}`];

function socketFacts({ name, port, cidrs }: SourceSet): HostFact[] {
  const unit = units.socket(name);
  const allow = cidrs.map(asSystemd).sort().join(" ");
  const deny = [anywhere.v4, anywhere.v6].sort().join(" ");
  return [
    kit.enabledAndActive(unit),
    { name: `${unit} is bound to loopback port ${port}, marked`, read: `bound ${unit} ${port}`, want: "yes" },
    { name: `${unit} admits`, read: `admits ${unit}`, want: `${allow}, not ${deny}` },
  ].map((fact) => ({ ...fact, about: unit }));
}

export const credentialsFact = `hooks with a credential in ${paths.credentials}`;

export const receiverPrograms = ["receiver"] as const;

export function receiverLayer(settings: Settings, made: ProgramHashes = {}) {
  const sets = sourceSets(settings);
  const hooks = withPreviews(settings.hooks).map(({ name }) => name);
  const encrypted = credentialFiles(settings);
  const folders: kit.Folder[] = [[paths.spool, "750", `root:${spoolGroup}`], ...hooks.map(folderOf)];
  const accounts = { user: receiverUser, group: spoolGroup, spool: paths.spool, readers: metricsGroup };
  const { values, facts, shared } = programsOf(receiverPrograms, made);
  const started = readAtStart(settings);
  return kit.layerOf(import.meta.url, "receiver", {
    shared,
    values: {
      ...values,
      ...{ service: units.receiver, sockets: socketsOf(settings), everySocket: units.socket("*"), slice },
      ...{ nginx: paths.nginx, run_units: paths.runUnits },
      ...{ metrics: units.metricsSocket, metricsPath: paths.metrics, metricsGroup },
      ...{ user: receiverUser, group: spoolGroup, spool: paths.spool, hooks, encrypted },
      ...{ sysusers: paths.sysusers, tmpfiles: paths.tmpfiles, credentials: paths.credentials },
      ...{ settings: paths.receiverSettings, program: paths.receiver },
      ...{ guard: units.guard, guardConfiguration, mustReject: mustReject(settings) },
    },
    files: [
      kit.file(paths.sysusers, kit.template(import.meta.url, "sysusers.conf", accounts)),
      kit.file(paths.tmpfiles, kit.tmpfilesOf(folders)),
      kit.jsonFile(paths.receiverSettings, receiverSettings(settings)),
      kit.unitFile(import.meta.url, slice),
      ...sets.map(socketUnit),
      kit.unitFile(import.meta.url, units.metricsSocket, {
        ...{ sockets: socketsOf(settings), service: units.receiver, slice },
        ...{ path: paths.metrics, group: metricsGroup, name: metricsName },
      }),
      serviceUnit(settings),
    ],
    owns: [
      ...[paths.sysusers, paths.tmpfiles, paths.receiverSettings],
      // The last one is for every unit whose name begins with "pushgate-".
      ...kit.dropIns("pushgate-receiver*", units.metricsSocket, slice, "pushgate-.*"),
      ...[slice, units.socket("*"), units.metricsSocket, units.receiver].map((unit) => `${paths.units}/${unit}`),
    ],
    facts: [
      ...facts,
      ...sets.flatMap(socketFacts),
      kit.enabledAndActive(units.metricsSocket),
      {
        name: `${paths.metrics} is`,
        read: `stat -c '%F %a %U:%G' ${paths.metrics} 2>/dev/null`,
        want: `socket 660 root:${metricsGroup}`,
      },
      kit.enabledAndActive(units.receiver),
      {
        name: `${units.receiver} runs what is installed`,
        read: call("runs_installed", units.receiver, started),
        want: "yes",
      },
      { name: `${units.receiver} answers`, read: "! serves || echo yes", want: "yes" },
      kit.accountsFact("the receiver's account", [[receiverUser, paths.spool, spoolGroup]]),
      { name: credentialsFact, read: `ls -A ${paths.credentials}`, want: encrypted.join("\n") },
      kit.modesFact("the spool's folders", folders),
    ],
    timeout: 90,
  });
}
