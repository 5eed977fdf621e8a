/** Can a host carry the layers? From the probe's report alone, before anything is changed, with all faults at once. */
import { printable } from "../../service/printable.ts";
import type { Probed } from "../apply/manifest.ts";
import { unread } from "../apply/reconcile.ts";
import type { HostReport, Listener } from "../apply/report.ts";
import { version, versionsOf } from "../apply/version.ts";
import { mailOf, sitesOf, sourceSets } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { isOlder } from "../config/tools.ts";
import { csrQuestion } from "./origin-key/origin-key.ts";
import { units } from "./paths.ts";
import { folderQuestion, foldersOfSites, scheduleQuestion, schedulesOf } from "./site/site.ts";

type Fitness = { readonly faults: string[]; readonly warnings: string[] };

type Check = (seen: ReturnType<typeof look>) => void;

export function fitFaults(host: Host, report: HostReport, settings: Settings): Fitness {
  const { faults, warnings } = preflight(host, report, settings);
  const listed = faults.map((text) => `\n  ${text}`).join("");
  return {
    faults: faults.length > 0 ? [`${host.name} cannot carry pushgate, nothing was changed:${listed}`] : [],
    warnings: warnings.map((text) => `${host.name}: ${text}`),
  };
}

export const questionsOf = (host: Host, settings: Settings): Probed[] => [
  csrQuestion(host),
  folderQuestion(settings),
  scheduleQuestion(settings),
];

function look(host: Host, report: HostReport, settings: Settings) {
  const faults: string[] = [];
  const warnings: string[] = [];
  return {
    ...{ host, report, settings, faults, warnings },
    /** "" if the command failed. */
    answer: (name: string): string => (report.system[name]?.status === 0 ? report.system[name].output : ""),
    fault: (text: string): void => void faults.push(printable(text)),
    warn: (text: string): void => void warnings.push(printable(text)),
  };
}

export function preflight(host: Host, report: HostReport, settings: Settings): Fitness {
  const seen = look(host, report, settings);
  const { faults, warnings } = seen;
  for (const check of [privilege, serviceManager]) check(seen);
  // A host that is only cleaned needs no more. Without root the other answers mean nothing.
  if (host.state === "present" && faults.length === 0) for (const check of checks) check(seen);
  return { faults, warnings };
}

const privilege: Check = ({ host: { ssh, sudo }, answer, fault }) => {
  if (answer("uid") === "0") return;
  if (sudo) fault(`sudo does not make ${ssh} root. Allow that login \`NOPASSWD: ALL\` in /etc/sudoers.d.`);
  else fault(`${ssh} is not root. Log in as root, or set \`sudo: true\` for a login with sudo and no password.`);
};

const serviceManager: Check = ({ answer, fault }) => {
  const first = answer("pid1") || "unknown";
  if (first !== "systemd") return fault(`process 1 is ${first}; pushgate needs systemd. Use a host that boots.`);
  const version = /^(?:systemd |libsystemd-shared-)(\d+)/.exec(answer("systemd"))?.[1] ?? "of an unknown version";
  if (!(Number(version) >= 252))
    fault(`systemd ${version} found; pushgate needs 252 or later. Use Debian 12 or later.`);
};

/** The other checks take what is missing in the report for something that the host does not have. */
const answered: Check = ({ host, settings, report: { system, layers }, fault }) => {
  const names = questionsOf(host, settings).flatMap(({ name, facts }) =>
    facts.flatMap((fact, i) => (layers[name]?.facts[i] === undefined ? [fact.name] : [])),
  );
  if (system.dnat === undefined) names.unshift("versions and resources");
  if (names.length > 0) fault(`${names.join(", ")}: ${unread}. Run the command again when this host is less busy.`);
};

const distribution: Check = ({ answer, fault, warn }) => {
  const tested = ["debian 12", "debian 13"];
  const name = answer("os") || "an unknown distribution";
  if (answer("apt") === "") fault(`${name} has no apt-get. Use Debian 12 or later, or another distribution with apt.`);
  else if (!tested.includes(name)) warn(`${name} is not among the tested distributions (${tested.join(", ")}).`);
};

const laterVersion: Check = ({ report: { layers }, warn }) => {
  const latest = versionsOf(Object.values(layers).map(({ stamp }) => stamp)).at(-1) ?? version;
  if (isOlder(version, latest))
    warn(
      `pushgate ${latest} applied layers here, and this is ${version}: \`up\` goes back. If you want the later one, run git pull && npm ci first.`,
    );
};

/**
 * `least`: the oldest versions that the tests have run the rendered files through; docs/decisions has the reasons. The probe
 * does not look up the version of what pushgate's services run: a later `least` needs that again (`runs` of system.sh).
 */
const software = [
  { name: "nftables", command: "nft", version: /v([\d.]+)/, least: "1.0.6" },
  { name: "nginx", command: "nginx", version: /nginx\/([\d.]+)/, least: "1.22" },
  { name: "nodejs", command: "nodejs", version: /^v([\d.]+)/, least: "18" },
];

const packages: Check = ({ answer, fault }) => {
  for (const { name, command, version, least } of software) {
    const installed = answer(command);
    const [, found = ""] = version.exec(installed) ?? [];
    const fix = `pushgate needs ${least} or later. Install the distribution's package, of Debian 12 or later.`;
    if (!["", "running"].includes(installed) && isOlder(found, least))
      fault(`${name} ${found || "of an unknown version"} found; ${fix}`);
  }
};

/** systemd reports no error if the kernel cannot enforce the allowlists of the receiver's sockets. */
const allowlist: Check = ({ answer, fault, warn }) => {
  const fix =
    "so the receiver's sockets would silently admit every source. Boot with systemd.unified_cgroup_hierarchy=1; in a container allow the bpf system call (systemd-nspawn: --system-call-filter=bpf), or use a virtual machine.";
  if (!answer("cgroup").includes("cgroup2fs")) fault(`no unified cgroup hierarchy found, ${fix}`);
  else if (answer("bpf") === "absent")
    fault(`this kernel or container cannot enforce a packet filter on systemd's own units, ${fix}`);
  else if (answer("bpf") !== "enforced")
    warn("enforcement of the allowlist is unknown. The guard proves it, or keeps the sockets closed.");
};

const network: Check = ({ report: { system }, fault }) => {
  for (const [name, tool] of Object.entries({ nftables: "nft", iprule: "ip rule" })) {
    const status = system[name]?.status ?? 0;
    const fix = "Grant CAP_NET_ADMIN, or use a virtual machine.";
    // 127: not installed yet; the packages layer installs it.
    if (status !== 0 && status !== 127)
      fault(`${tool} is not permitted by this kernel or container (exit ${status}). ${fix}`);
  }
};

/** Of ports as nft prints them, such as 8000-9000. */
const isWithin = (port: number) => (range: string) => {
  const [first = 0, last = first] = range.split("-").map(Number);
  return first <= port && port <= last;
};

const originPort: Check = ({ host: { originPort: port, hostname }, report, answer, fault }) => {
  const fix = `Set \`originPort\` of the host with the hostname ${hostname} to a free port.`;
  const own: readonly string[] = [units.nginxSocket, units.nginx];
  const holders = report.listeners.filter((one) => one.port === port && !own.includes(one.unit));
  const names = new Set(holders.map(({ process }) => process || "a process without a name (the kernel's)"));
  if (report.sshPort === port || names.has("sshd"))
    fault(`the origin port ${port} is the SSH port, and admitting only Cloudflare would lock you out. ${fix}`);
  else if (
    answer("dnat")
      .match(/\d+(-\d+)?/g)
      ?.some(isWithin(port))
  )
    fault(`a container publishes the origin port ${port} (a DNAT rule), so traffic never reaches nginx. ${fix}`);
  else if (names.size > 0) fault(`the origin port ${port} is in use by ${[...names].join(", ")}. ${fix}`);
};

const isSocket = new RegExp(`^${units.socket(".+")}$`);

/** Until systemd has executed the receiver, the process has a name of systemd's. Of a stopped socket there is no unit. */
const isOfReceiver = ({ unit, process }: Listener): boolean =>
  isSocket.test(unit) || (unit === "" && ["systemd", "node", "MainThread", "?node"].includes(process));

const receiverPorts: Check = ({ settings, report, fault }) => {
  for (const { port, name } of sourceSets(settings))
    for (const { process } of report.listeners.filter((one) => one.port === port && !isOfReceiver(one)))
      fault(
        `port ${port}, the receiver's for ${name}, is in use by ${process || "another process"}. Move that process.`,
      );
};

/** MiB. nginx and nodejs unpack to about 200 with their libraries, and apt's archives of them are 60. */
const roomToInstall = 400;
/** MiB. Rendered files are under 1, the two programs and their predecessors 10; a build needs room of its own. */
const roomToWork = 50;

const disk: Check = ({ answer, fault }) => {
  const installs = software.some(({ command }) => answer(command) === "");
  const lines = answer("free").split("\n");
  for (const [index, folder] of ["/", "/etc", "/var"].entries()) {
    const available = Number(lines[index]?.split(/\s+/)[3]) / 1024;
    const needed = installs && folder !== "/etc" ? roomToInstall : roomToWork;
    if (available < needed)
      fault(`${folder} has ${Math.floor(available)} MiB free; pushgate needs ${needed}. Free space there.`);
  }
};

/** Cloudflare answers on IPv6 for every proxied name, whatever the DNS records are. On the host the loopback needs it. */
const ipv6: Check = ({ host: { address6 }, answer, warn }) => {
  if (answer("ipv6") !== "") return;
  const found = "no IPv6 on this host: a push that reaches Cloudflare over IPv6 is answered 503.";
  const leave =
    address6 === undefined ? "" : ` Leave \`address6\` (${address6}) out, or Cloudflare may try it in vain.`;
  warn(`${found}${leave} Set net.ipv6.conf.lo.disable_ipv6=0 in /etc/sysctl.d, then run \`npx pulumi up\`.`);
};

const folders: Check = ({ settings, report: { layers }, fault }) => {
  for (const [i, { key, path }] of foldersOfSites(settings).entries()) {
    const found = layers.folders?.facts[i]?.output ?? "fit";
    if (found !== "fit") fault(`${key} is ${path}, ${found}`);
  }
};

const mail: Check = ({ settings, answer, fault }) => {
  if (answer("sendmail") !== "" || sitesOf(settings).every((hook) => mailOf(hook).length === 0)) return;
  fault(
    "site.notify has a recipient of format email, and /usr/sbin/sendmail is missing. Run apt install nullmailer, or another package that provides mail-transport-agent, and configure it.",
  );
};

/** infra/config knows the shape of a schedule only; systemd would start no timer whose date it cannot read. */
const schedules: Check = ({ settings, report: { layers }, fault }) => {
  const advice = "Use an expression that `systemd-analyze calendar` of this host prints a date for, such as 06:00.";
  for (const [i, schedule] of schedulesOf(settings).entries()) {
    const next = layers.schedules?.facts[i]?.output;
    if (next === "") fault(`systemd cannot read the schedule "${schedule}". ${advice}`);
    if (next === "never") fault(`the schedule "${schedule}" never comes again. ${advice}`);
  }
};

/** What the absence of a cgroup controller means for a build's limit; systemd reports no error for it. */
const effects = {
  memory: "`memoryMiB` applies to each process of the generator alone",
  pids: "`tasks` applies to the generator and not to git",
  cpu: "`cpuPercent` has no effect, and a build may use every core",
};

const buildLimits: Check = ({ settings, report, warn }) => {
  const { controllers } = report.system;
  // Without cgroup.controllers the host has no unified hierarchy, which the check `allowlist` reports.
  if (sitesOf(settings).length === 0 || controllers?.status !== 0) return;
  const missing = Object.entries(effects).filter(([name]) => !controllers.output.split(/\s/).includes(name));
  if (missing.length === 0) return;
  const names = missing.map(([name]) => name).join(", ");
  const pi = names.includes("memory") ? " On a Raspberry Pi boot with cgroup_enable=memory." : "";
  warn(
    `this kernel or container has no cgroup controller for ${names}, so of \`site.limits\` ${missing.map(([, effect]) => effect).join("; ")}. In a container let its host delegate ${names}.${pi}`,
  );
};

const checks = [
  ...[answered, distribution, laterVersion, packages, allowlist, network, originPort, receiverPorts],
  ...[disk, ipv6, folders, schedules, mail, buildLimits],
];
