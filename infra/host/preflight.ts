/** Can a host carry the layers? From the probe's report alone, before anything is changed, with all faults at once. */
import type { Probed } from "../apply/manifest.ts";
import { unread } from "../apply/reconcile.ts";
import type { HostReport, Listener } from "../apply/report.ts";
import { sitesOf, sourceSets } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { csrQuestion } from "./origin-key/origin-key.ts";
import { units } from "./paths.ts";
import { folderQuestion, foldersOfSites, scheduleQuestion, schedulesOf } from "./site/site.ts";

type Fitness = { readonly faults: string[]; readonly warnings: string[] };

type Finding = { readonly fault: string } | { readonly warning: string };
type Check = (host: Host, report: HostReport, settings: Settings) => Finding[];

const fault = (text: string): Finding[] => [{ fault: text }];
const warning = (text: string): Finding[] => [{ warning: text }];

/** The lines of `preflight` for a person: all faults of a host are one text. */
export function fitFaults(host: Host, report: HostReport, settings: Settings): Fitness {
  const { faults, warnings } = preflight(host, report, settings);
  const listed = faults.map((text) => `\n  ${text}`).join("");
  return {
    faults: faults.length > 0 ? [`${host.name} cannot carry pushgate, nothing was changed:${listed}`] : [],
    warnings: warnings.map((text) => `${host.name}: ${text}`),
  };
}

/** What is probed for preflight, and for no layer. */
export const questionsOf = (host: Host, settings: Settings): Probed[] => [
  csrQuestion(host),
  folderQuestion(settings),
  scheduleQuestion(settings),
];

export function preflight(host: Host, report: HostReport, settings: Settings): Fitness {
  const run = (...checks: readonly Check[]) => checks.flatMap((check) => check(host, report, settings));
  const found = run(privilege, serviceManager);
  // A host that is only cleaned needs no more. Without root the other answers mean nothing.
  if (host.state === "present" && found.length === 0)
    found.push(
      ...run(answered, distribution, packages, allowlist, network, originPort, receiverPorts),
      ...run(disk, ipv6, folders, schedules, buildLimits),
    );
  return {
    faults: found.flatMap((one) => ("fault" in one ? [one.fault] : [])),
    warnings: found.flatMap((one) => ("warning" in one ? [one.warning] : [])),
  };
}

/** What the host answered; "" if the command failed. */
const answer = ({ system }: HostReport, name: string): string =>
  system[name]?.status === 0 ? system[name].output : "";

const privilege: Check = ({ ssh, sudo }, report) => {
  if (answer(report, "uid") === "0") return [];
  return sudo
    ? fault(`sudo does not make ${ssh} root. Allow that login \`NOPASSWD: ALL\` in /etc/sudoers.d.`)
    : fault(`${ssh} is not root. Log in as root, or set \`sudo: true\` for a login with sudo and no password.`);
};

const serviceManager: Check = (_, report) => {
  const [first, container] = [answer(report, "pid1") || "unknown", answer(report, "container")];
  if (first !== "systemd") {
    const where = container === "" || container === "none" ? "" : ` (a ${container} container)`;
    return fault(`process 1 is ${first}${where}; pushgate needs systemd. Use a host that boots.`);
  }
  const version = /^systemd (\d+)/.exec(answer(report, "systemd"))?.[1];
  if (Number(version) >= 252) return [];
  return fault(
    `systemd ${version ?? "of an unknown version"} found; pushgate needs 252 or later. Use Debian 12 or later.`,
  );
};

/** The other checks take what is missing in the report for something that the host does not have. */
const answered: Check = (host, { system, layers }, settings) => {
  const names = questionsOf(host, settings).flatMap(({ name, facts }) =>
    facts.flatMap((fact, i) => (layers[name]?.facts[i] === undefined ? [fact.name] : [])),
  );
  // The last fact of system.sh.
  if (system.candidates === undefined) names.unshift("versions and resources");
  if (names.length === 0) return [];
  return fault(`${names.join(", ")}: ${unread}. Run the command again when this host is less busy.`);
};

const distribution: Check = (_, report) => {
  const tested = ["debian 12", "debian 13"];
  const name = answer(report, "os") || "an unknown distribution";
  if (answer(report, "apt") === "")
    return fault(`${name} has no apt-get. Use Debian 12 or later, or another distribution with apt.`);
  if (tested.includes(name)) return [];
  return warning(`${name} is not among the tested distributions (${tested.join(", ")}).`);
};

const older = (version: string, least: string): boolean => {
  const [found = ""] = /\d+(\.\d+)*/.exec(version.replace(/^\d+:/, "")) ?? [];
  return found.localeCompare(least, "en", { numeric: true }) < 0;
};

/** `least`: the oldest versions that the tests have run the rendered files through; docs/decisions has the reasons. */
const software = [
  { name: "nftables", command: "nft", version: /v(\S+)/, least: "1.0.6" },
  { name: "nginx", command: "nginx", version: /nginx\/(\S+)/, least: "1.22" },
  { name: "nodejs", command: "nodejs", version: /^v(\S+)/, least: "18" },
];

const packages: Check = (_, report) => {
  const lines = answer(report, "candidates").split("\n");
  return software.flatMap(({ name, command, version, least }): Finding[] => {
    const needed = `pushgate needs ${least} or later`;
    const installed = answer(report, command);
    if (installed !== "") {
      const found = version.exec(installed)?.[1];
      if (found === undefined)
        return fault(`${name} reports "${installed}", which is not ${name}. Install the distribution's package.`);
      if (!older(found, least)) return [];
      return fault(`${name} ${found} found; ${needed}. Upgrade the package, or use Debian 12 or later.`);
    }
    const candidate = lines.includes(name) ? lines[lines.indexOf(name) + 1]?.replace(/^=/, "") : undefined;
    if (candidate !== undefined && candidate !== "(none)") {
      if (!older(candidate, least)) return [];
      return fault(`${name} is not installed and apt offers ${candidate}; ${needed}. Use Debian 12 or later.`);
    }
    if (["0", ""].includes(answer(report, "aptlists")))
      return warning(`${name} is not installed and apt has no package lists yet. They are fetched first.`);
    return fault(`${name} is not installed and apt offers none; ${needed}. Enable the distribution's main repository.`);
  });
};

/** systemd reports no error if the kernel cannot enforce the allowlists of the receiver's sockets. */
const allowlist: Check = (_, report) => {
  const fix =
    "so the receiver's sockets would silently admit every source. Boot with systemd.unified_cgroup_hierarchy=1; in " +
    "a container allow the bpf system call (systemd-nspawn: --system-call-filter=bpf), or use a virtual machine.";
  if (!answer(report, "cgroup").includes("cgroup2fs")) return fault(`no unified cgroup hierarchy found, ${fix}`);
  if (answer(report, "bpf") === "enforced") return [];
  return answer(report, "bpf") === "absent"
    ? fault(`this kernel or container cannot enforce a packet filter on systemd's own units, ${fix}`)
    : warning("enforcement of the allowlist is unknown. The guard proves it, or keeps the sockets closed.");
};

const network: Check = (_, { system }) =>
  Object.entries({ nftables: "nft", iprule: "ip rule" }).flatMap(([name, tool]) => {
    const status = system[name]?.status ?? 0;
    // 127: not installed yet; the packages layer installs it.
    if (status === 0 || status === 127) return [];
    const fix = "Grant CAP_NET_ADMIN, or use a virtual machine.";
    return fault(`${tool} is not permitted by this kernel or container (exit ${status}). ${fix}`);
  });

const originPort: Check = ({ originPort: port, hostname }, report) => {
  const fix = `Set \`originPort\` of the host with the hostname ${hostname} to a free port.`;
  const holders = report.listeners.filter((one) => one.port === port && !isOfNginx(one)).map(({ process }) => process);
  if (report.sshPort === port || holders.includes("sshd"))
    return fault(`the origin port ${port} is the SSH port, and admitting only Cloudflare would lock you out. ${fix}`);
  if (answer(report, "dnat").split("\n").includes(String(port)))
    return fault(`a container publishes the origin port ${port} (a DNAT rule), so traffic never reaches nginx. ${fix}`);
  const others = [...new Set(holders)];
  if (others.length === 0) return [];
  const name = others.map((holder) => (holder === "" ? "a process without a name (the kernel's)" : holder)).join(", ");
  const published = others.includes("docker-proxy") ? " (a container's published port)" : "";
  return fault(`the origin port ${port} is in use by ${name}${published}. ${fix}`);
};

const isSocket = new RegExp(`^${units.socket(".+")}$`);
/** By the unit: systemd holds the socket, too. After a manual change the service may listen itself. */
const isOfNginx = ({ unit }: Listener): boolean => unit === units.nginxSocket || unit === units.nginx;

/**
 * By the unit: until systemd has executed the receiver, the process that holds its sockets has a name of systemd's. Where
 * a person has stopped a socket, the receiver still holds it.
 */
const isOfReceiver = ({ unit, process }: Listener): boolean =>
  isSocket.test(unit) || (unit === "" && ["systemd", "node", "MainThread", "?node"].includes(process));

const receiverPorts: Check = (_, { listeners }, settings) =>
  sourceSets(settings).flatMap(({ port, name }) =>
    listeners
      .filter((one) => one.port === port && !isOfReceiver(one))
      .flatMap(({ process }) =>
        fault(
          `port ${port}, the receiver's for ${name}, is in use by ${process || "another process"}. Move that process.`,
        ),
      ),
  );

/** MiB. nginx and nodejs unpack to about 200 with their libraries, and apt's archives of them are 60. */
const roomToInstall = 400;
/** MiB. Rendered files are under 1, the two programs and their predecessors 10; a build needs room of its own. */
const roomToWork = 50;

const disk: Check = (_, report) => {
  const installs = software.some(({ command }) => answer(report, command) === "");
  const lines = answer(report, "free").split("\n");
  return ["/", "/etc", "/var"].flatMap((folder, index) => {
    const available = Number(lines[index]?.split(/\s+/)[3]) / 1024;
    const needed = installs && folder !== "/etc" ? roomToInstall : roomToWork;
    if (!(available < needed)) return [];
    return fault(`${folder} has ${Math.floor(available)} MiB free; pushgate needs ${needed}. Free space there.`);
  });
};

/** Cloudflare answers on IPv6 for every proxied name, whatever the DNS records are. On the host the loopback needs it. */
const ipv6: Check = ({ address6 }, report) => {
  if (answer(report, "ipv6") !== "") return [];
  const found = `no IPv6 on this host${address6 === undefined ? "" : `, though \`address6\` is ${address6}`}`;
  const leave = address6 === undefined ? "" : "Leave `address6` out, or Cloudflare may try it in vain. ";
  const fix = "Set net.ipv6.conf.lo.disable_ipv6=0 in /etc/sysctl.d, then run `npx pulumi up`.";
  return warning(`${found}: a push that reaches Cloudflare over IPv6 is answered 503. ${leave}${fix}`);
};

/** What root, the generator and nginx cannot use, also later: an `up` would stop there. */
const folders: Check = (_, { layers: { folders: seen } }, settings) =>
  foldersOfSites(settings).flatMap(({ key, path }, i) => {
    const found = seen?.facts[i]?.output;
    return found === undefined || found === "fit" ? [] : fault(`${key} is ${path}, ${found}`);
  });

/** infra/config knows the shape of a schedule only; systemd would start no timer whose date it cannot read. */
const schedules: Check = (_, { layers: { schedules: seen } }, settings) =>
  schedulesOf(settings).flatMap((schedule, i) => {
    const next = seen?.facts[i]?.output;
    const advice = "Use an expression that `systemd-analyze calendar` of this host prints a date for, such as 06:00.";
    if (next === "") return fault(`systemd cannot read the schedule "${schedule}". ${advice}`);
    if (next === "never") return fault(`the schedule "${schedule}" never comes again. ${advice}`);
    return [];
  });

/** What the absence of a cgroup controller means for a build's limit; systemd reports no error for it. */
const controllersOfLimits = [
  { name: "memory", absent: "`memoryMiB` applies to each process of the generator alone" },
  { name: "pids", absent: "`tasks` applies to the generator and not to git" },
  { name: "cpu", absent: "`cpuPercent` has no effect, and a build may use every core" },
];

/** Of builds only: the receiver enforces its own limits. */
const buildLimits: Check = (_, { system: { controllers } }, settings) => {
  // Without cgroup.controllers the host has no unified hierarchy, which the check `allowlist` reports.
  if (sitesOf(settings).length === 0 || controllers?.status !== 0) return [];
  const missing = controllersOfLimits.filter(({ name }) => !controllers.output.split(/\s/).includes(name));
  if (missing.length === 0) return [];
  const names = missing.map(({ name }) => name).join(", ");
  const effects = missing.map(({ absent }) => absent).join("; ");
  const pi = names.includes("memory") ? " On a Raspberry Pi boot with cgroup_enable=memory." : "";
  return warning(
    `this kernel or container has no cgroup controller for ${names}, so of \`site.limits\` ${effects}. ` +
      `In a container let its host delegate ${names}.${pi}`,
  );
};
