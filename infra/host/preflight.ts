/**
 * Can this machine carry the layers? Pure: from the probe's answer, before anything is changed, all faults at once.
 * Capability decides; a distribution nobody tested is only a warning.
 */

import type { HostReport } from "../apply/report.ts";
import type { Host, Settings } from "../config/settings.ts";
import { sitesOf } from "../config/sites.ts";
import { sourceSets } from "../config/source-sets.ts";
import { paths } from "./paths.ts";
import { siteFitness } from "./site/site.ts";

export type Fitness = { readonly faults: string[]; readonly warnings: string[] };

const tested = ["debian 12", "debian 13"];

/** Oldest versions whose parsers the renderings were put before; see docs/decisions for what each brings. */
const oldest = {
  systemd: [252],
  nftables: [1, 0, 6],
  nginx: [1, 22],
  nodejs: [18],
} as const;

/** MiB. nginx and nodejs unpack to about 200 with their libraries, apt's archives of them are 60; then room to breathe. */
const roomToInstall = 400;
/** MiB. Rendered files are under one, the two bundles and their predecessors ten; a build needs room of its own. */
const roomToWork = 50;

type Check = (host: Host, report: HostReport, settings: Settings) => Fitness;

const fault = (text: string): Fitness => ({ faults: [text], warnings: [] });
const warning = (text: string): Fitness => ({ faults: [], warnings: [text] });
const fine: Fitness = { faults: [], warnings: [] };

export function preflight(host: Host, report: HostReport, settings: Settings): Fitness {
  const basic = together([privilege, serviceManager], host, report, settings);
  // A machine that is only to be cleaned needs no more than the means to do it; without root the rest says nothing.
  if (host.state !== "present" || basic.faults.length > 0) return basic;
  const rest = [distribution, packages, allowlist, network, originPort, receiverPorts, disk, addresses, sites, limits];
  return together(rest, host, report, settings);
}

function together(checks: readonly Check[], host: Host, report: HostReport, settings: Settings): Fitness {
  const found = checks.map((check) => check(host, report, settings));
  return { faults: found.flatMap(({ faults }) => faults), warnings: found.flatMap(({ warnings }) => warnings) };
}

/** The same as texts for a person; all faults of a machine are one text. */
export function fitFaults(host: Host, report: HostReport, settings: Settings): Fitness {
  const { faults, warnings } = preflight(host, report, settings);
  const listed = faults.map((text) => `\n  ${text}`).join("");
  return {
    faults: faults.length > 0 ? [`${host.name} can't carry pushgate, nothing was changed:${listed}`] : [],
    warnings: warnings.map((text) => `${host.name}: ${text}`),
  };
}

/** What the machine answered, "" where the question failed. */
const said = ({ system }: HostReport, name: string): string => (system[name]?.status === 0 ? system[name].output : "");

const privilege: Check = ({ ssh, sudo }, report) =>
  said(report, "uid") === "0"
    ? fine
    : fault(
        sudo
          ? `sudo does not make ${ssh} root: allow that login \`NOPASSWD: ALL\` in /etc/sudoers.d`
          : `${ssh} is not root: log in as root, or set \`sudo: true\` for a login that may use sudo without a password`,
      );

const serviceManager: Check = (_, report) => {
  if (said(report, "pid1") !== "systemd") {
    const container = said(report, "container");
    const where = container === "" || container === "none" ? "" : ` (a ${container} container)`;
    return fault(
      `process 1 is ${said(report, "pid1") || "unknown"}${where}, needed is systemd: an application container is no host for this, use a machine that boots`,
    );
  }
  const found = /^systemd (\d+)/.exec(said(report, "systemd"))?.[1];
  return found !== undefined && Number(found) >= oldest.systemd[0]
    ? fine
    : fault(`systemd ${found ?? "of an unknown version"} found, needed is 252 or later: use Debian 12 or later`);
};

const distribution: Check = (_, report) => {
  const name = said(report, "os") || "an unknown distribution";
  if (said(report, "apt") === "")
    return fault(`${name} has no apt-get, needed is Debian 12 or later, or another distribution with apt`);
  return tested.includes(name)
    ? fine
    : warning(`${name} is not among the tested distributions (${tested.join(", ")}); what it can do decides`);
};

const numbers = (version: string): number[] => (/\d+(\.\d+)*/.exec(version)?.[0] ?? "").split(".").map(Number);

function older(version: string, least: readonly number[]): boolean {
  const found = numbers(version.replace(/^\d+:/, ""));
  for (const [index, need] of least.entries()) {
    const have = found[index] ?? 0;
    if (have !== need) return have < need;
  }
  return false;
}

const software = [
  { name: "nftables", asked: "nft", version: /v(\S+)/ },
  { name: "nginx", asked: "nginx", version: /nginx\/(\S+)/ },
  { name: "nodejs", asked: "nodejs", version: /^v(\S+)/ },
] as const;

const packages: Check = (_, report) => {
  const lines = said(report, "candidates").split("\n");
  const found = software.map(({ name, asked, version }): Fitness => {
    const least = oldest[name];
    const needed = `needed is ${least.join(".")} or later`;
    const installed = said(report, asked);
    if (installed !== "") {
      const have = version.exec(installed)?.[1];
      if (have === undefined)
        return fault(`${name} says "${installed}", which is not ${name}; ${needed}, from the distribution's package`);
      return older(have, least)
        ? fault(`${name} ${have} found, ${needed}: upgrade the package, or use Debian 12 or later`)
        : fine;
    }
    const candidate = lines[lines.indexOf(name) + 1]?.replace(/^=/, "");
    if (!lines.includes(name) || candidate === undefined || candidate === "(none)")
      return said(report, "aptlists") === "0" || said(report, "aptlists") === ""
        ? warning(`${name} is not installed and apt has no package lists yet; they are fetched first`)
        : fault(`${name} is not installed and apt offers none; ${needed}: enable the distribution's main repository`);
    return older(candidate, least)
      ? fault(`${name} is not installed and apt offers ${candidate}, ${needed}: use Debian 12 or later`)
      : fine;
  });
  return {
    faults: found.flatMap(({ faults }) => faults),
    warnings: found.flatMap(({ warnings }) => warnings),
  };
};

/** The address list on the receiver's sockets fails open in silence where the kernel can't enforce it. */
const allowlist: Check = (_, report) => {
  const cure =
    "the receiver's address list would be open to all without a word. " +
    "Boot with systemd.unified_cgroup_hierarchy=1; in a container allow the bpf system call (systemd-nspawn: --system-call-filter=bpf), or use a virtual machine";
  if (!said(report, "cgroup").includes("cgroup2fs")) return fault(`no unified cgroup hierarchy found: ${cure}`);
  if (said(report, "bpf") === "enforced") return fine;
  return said(report, "bpf") === "absent"
    ? fault(
        `no packet filter is attached to systemd's own units, so this kernel or container cannot enforce one: ${cure}`,
      )
    : warning("could not see whether address lists are enforced here; the guard proves it, or keeps the socket closed");
};

const network: Check = (_, report) => {
  const unusable = (asked: string, tool: string): string[] => {
    const answer = report.system[asked];
    // 127: not installed yet, the packages layer brings it.
    return answer === undefined || answer.status === 0 || answer.status === 127
      ? []
      : [
          `${tool} is refused by this kernel or container (exit ${answer.status}): grant CAP_NET_ADMIN, or use a virtual machine`,
        ];
  };
  return { faults: [...unusable("nftables", "nft"), ...unusable("iprule", "ip rule")], warnings: [] };
};

const originPort: Check = ({ originPort: port, hostname }, report) => {
  const cure = `give \`originPort\` for ${hostname} another of Cloudflare's TLS ports or any free one`;
  const holders = report.listeners.filter((listener) => listener.port === port).map((listener) => listener.process);
  if (report.sshPort === port || holders.includes("sshd"))
    return fault(`the origin port ${port} is the SSH port: closing it to all but the edge would lock you out; ${cure}`);
  if (said(report, "dnat").split("\n").includes(String(port)))
    return fault(
      `a container publishes the origin port ${port} (a DNAT rule), so traffic never reaches nginx; ${cure}`,
    );
  const ours = Object.values(report.layers).some(({ files }) => files[paths.nginx] !== undefined);
  const others = [...new Set(holders.filter((holder) => !(holder === "nginx" && ours)))];
  if (others.length === 0) return fine;
  const name = others.map((holder) => (holder === "" ? "a process without a name (the kernel's)" : holder)).join(", ");
  const hint = others.includes("docker-proxy") ? " (a container's published port)" : "";
  return fault(
    `the origin port ${port} is already listened on by ${name}${hint}${others.includes("nginx") ? ", for another site" : ""}; ${cure}`,
  );
};

const receiverPorts: Check = (_, report, settings) => {
  const taken = sourceSets(settings).flatMap(({ port, name }) =>
    report.listeners
      // systemd holds our sockets, and the receiver's node has inherited them.
      .filter((listener) => listener.port === port && !["systemd", "node", "MainThread"].includes(listener.process))
      .map(
        ({ process }) =>
          `port ${port}, the receiver's for ${name}, is already listened on by ${process || "another process"}: move that`,
      ),
  );
  return { faults: [...new Set(taken)], warnings: [] };
};

const disk: Check = (_, report) => {
  const installs = software.some(({ asked }) => said(report, asked) === "");
  const needed = installs ? roomToInstall : roomToWork;
  const short = said(report, "free")
    .split("\n")
    .flatMap((line, index) => {
      const available = Number(line.split(/\s+/)[3]) / 1024;
      const folder = ["/", "/etc", "/var"][index];
      return folder !== undefined && available < (folder === "/etc" ? roomToWork : needed)
        ? [
            `${folder} has ${Math.floor(available)} MiB free, needed are ${folder === "/etc" ? roomToWork : needed}: make room`,
          ]
        : [];
    });
  return { faults: short, warnings: [] };
};

const addresses: Check = ({ address6 }, report) => {
  if (said(report, "ipv6") !== "") return fine;
  // The edge answers on IPv6 for every proxied name, so a git host may send from there whatever DNS data we give it; such
  // a sender's address can then be no peer of the receiver's socket.
  const cure =
    "a push that reaches the edge over IPv6 is answered 503. The loopback alone needs it: " +
    "set net.ipv6.conf.lo.disable_ipv6=0 in /etc/sysctl.d, then `pulumi up`";
  return address6 === undefined
    ? warning(`no IPv6 on this machine: ${cure}`)
    : warning(
        `no IPv6 on this machine, though \`address6\` is ${address6}: leave it out, or the edge may try it in vain; and ${cure}`,
      );
};

const sites: Check = (_, { layers }, settings) => siteFitness(settings, layers.site);

/** Controller -> what its absence makes of a build's limit; systemd takes the limits in any case, and holds nothing. */
const counted = {
  memory: "`memoryMiB` is held for each process of hugo's alone",
  pids: "`tasks` is held for the builds of all sites together",
  cpu: "`cpuPercent` is not held, and a build may take every core",
} as const;

/** The builds' alone: the receiver's limits stand beside what it counts itself. */
const limits: Check = (_, { system: { controllers } }, settings) => {
  // Without the file there is no unified hierarchy, which is the allowlist's fault.
  if (sitesOf(settings).length === 0 || controllers?.status !== 0) return fine;
  const there = controllers.output.split(/\s+/);
  const missing = (Object.keys(counted) as (keyof typeof counted)[]).filter((name) => !there.includes(name));
  if (missing.length === 0) return fine;
  return warning(
    `this kernel or container has no cgroup controller for ${missing.join(", ")}, so of \`site.limits\` ` +
      `${missing.map((name) => counted[name]).join("; ")}. Cure: in a container let its host delegate ` +
      `${missing.join(", ")}${missing.includes("memory") ? "; on a Raspberry Pi boot with cgroup_enable=memory" : ""}`,
  );
};
