/** bootHost: a throwaway Debian, booted clean in seconds, reached by the operator's own ssh as a real one would be. */
import { readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Release, Variant } from "./image.ts";
import { labFolder, nameAddress } from "./lab.ts";
import { Machine } from "./machine.ts";
import { wire } from "./net.ts";
import { type Ran, type RunOptions, run } from "./process.ts";
import { freezeDisk, imageLayers, mountDisk, personalize, readdress, rootOf, unmountDisk } from "./tree.ts";

export type BootOptions = {
  /** Host name, at most 12 characters, unique among the running hosts of a lab. */
  readonly name: string;
  readonly release: Release;
  readonly variant: Variant;
  /** disable_ipv6=1 on every link, loopback included. */
  readonly noIpv6?: boolean;
  /** What the host may write before its disk is full. Default 1024. */
  readonly diskMegabytes?: number;
  /** false: the container may not call bpf, so its service manager enforces no address list. Default true. */
  readonly enforces?: boolean;
};

/** A powered-off host's disk with its identity; boot it as often as wanted, one at a time, and copies beside each other. */
export type Frozen = {
  readonly options: BootOptions;
  readonly alias: string;
  readonly slot: number;
  readonly layers: readonly string[];
};

export type HostRunOptions = RunOptions & {
  /** root (default); deploy may `sudo -n`; guest may nothing. */
  readonly user?: "root" | "deploy" | "guest";
};

export class Host {
  readonly name: string;
  /** What ssh knows it by: its name, unless it is a copy. */
  readonly alias: string;
  readonly release: Release;
  readonly address: string;
  /** Undefined where IPv6 is off. */
  readonly address6: string | undefined;
  private readonly options: BootOptions;
  private readonly slot: number;
  private readonly machine: Machine;

  constructor(options: BootOptions, slot: number, machine: Machine) {
    const own = wire.host(slot);
    this.name = options.name;
    this.alias = machine.name;
    this.release = options.release;
    this.address = own.v4;
    this.address6 = options.noIpv6 ? undefined : own.v6;
    this.options = options;
    this.slot = slot;
    this.machine = machine;
  }

  /** The operator's road: a new ssh connection each time. Throws on a non-zero exit unless `check: false`. */
  ssh(command: string, { user = "root", ...options }: HostRunOptions = {}): Promise<Ran> {
    return run("ssh", ["-o", "BatchMode=yes", `${user}@${this.alias}`, command], options);
  }

  /** Past network, sshd and firewall, as root: for faults, and for looking at a host that locked everybody out. */
  inside(command: string, options: RunOptions = {}): Promise<Ran> {
    return this.machine.inside(command, options);
  }

  /** `inside`, its standard output trimmed. */
  async read(command: string): Promise<string> {
    return (await this.inside(command)).stdout.trim();
  }

  async readFile(path: string): Promise<string> {
    return (await this.inside(`cat -- '${path}'`)).stdout;
  }

  async writeFile(path: string, text: string, mode = "0644"): Promise<void> {
    await this.inside(`mkdir -p -- "$(dirname '${path}')" && cat >'${path}' && chmod ${mode} '${path}'`, {
      stdin: text,
    });
  }

  /** This boot's journal, of one unit or whole. */
  async journal(unit?: string): Promise<string> {
    return this.read(`journalctl --boot --no-pager --output=short-precise ${unit ? `--unit='${unit}'` : ""}`);
  }

  /** Orderly; resolves with systemd's verdict when ssh answers again. */
  async reboot(): Promise<string> {
    const before = this.machine.leader();
    await this.inside("systemctl --no-block reboot");
    return this.machine.isUp(this.address, before);
  }

  /** Orderly; everything of the host is gone afterwards. */
  async powerOff(): Promise<void> {
    await this.machine.powerOff();
    await this.discard();
  }

  /** Not orderly; else as powerOff. The usual end of a test. */
  async kill(): Promise<void> {
    await this.machine.kill();
    await this.discard();
  }

  /** Powers off and keeps the disk: `thaw` boots from it, each time from this same state. */
  async freeze(): Promise<Frozen> {
    await this.machine.powerOff();
    running.delete(this);
    const layers = await freezeDisk(this.machine.disk);
    return { options: this.options, alias: this.alias, slot: this.slot, layers };
  }

  /** Path -> mode, owner, and content's hash or link's target, of everything under `folder`. */
  async snapshot(folder: string): Promise<Record<string, string>> {
    // Untrimmed: a line may end in a space, and which one is the last differs from boot to boot.
    const kinds = (await this.inside(`cd '${folder}' && find . -printf '%p\\t%M %u:%g %l\\n'`)).stdout.replace(
      /\n$/,
      "",
    );
    const sums = await this.read(`cd '${folder}' && find . -type f -exec sha256sum {} +`);
    const rows = new Map(kinds.split("\n").map((line) => line.split("\t") as [string, string]));
    for (const line of sums.split("\n")) {
      const [sum = "", path = ""] = line.split(/ [ *]/);
      rows.set(path, `${rows.get(path) ?? ""}${sum}`);
    }
    return Object.fromEntries(
      [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, row]) => [path.slice(2), row]),
    );
  }

  snapshotEtc(): Promise<Record<string, string>> {
    return this.snapshot("/etc");
  }

  /** The host's root folder as the lab sees it; what the host mounts on top, /run for one, is not in it. */
  get root(): string {
    return rootOf(this.machine.disk);
  }

  private async discard(): Promise<void> {
    running.delete(this);
    await unmountDisk(this.machine.disk);
  }
}

const running = new Set<Host>();

/** Kills what this process booted and a failed test left running. */
export async function killHosts(): Promise<void> {
  await Promise.all([...running].map((host) => host.kill()));
}

/** A name keeps its addresses for the lab's life, as neighbour tables remember; the link is also the lock. */
function slotOf(name: string): number {
  for (let slot = 10; slot < 250; slot++) {
    const link = join(labFolder, `slot-${slot}`);
    try {
      symlinkSync(name, link);
      return slot;
    } catch {
      if (readlinkSync(link) === name) return slot;
    }
  }
  throw new Error("240 host names are in use: name hosts again rather than anew");
}

/** Boots a clean host; resolves when systemd is done and ssh answers. Throws with the console's last lines. */
export async function bootHost(options: BootOptions): Promise<Host> {
  assertName(options.name);
  const slot = slotOf(options.name);
  const layers = imageLayers(options.release, options.variant);
  const disk = await mountDisk(options.name, layers, options.diskMegabytes ?? 1024);
  const identity = { name: options.name, slot, ipv6: !options.noIpv6 };
  await personalize(rootOf(disk), identity);
  nameAddress(wire.host(slot).v4, options.name, `${options.name}.example.org`);
  return start(options, slot, new Machine(options.name, disk, options.enforces));
}

function assertName(name: string): void {
  if (/^[a-z][a-z0-9-]{0,11}$/.test(name)) return;
  throw new Error(`${name}: a host's name has at most 12 of a-z, 0-9 and "-", as its network link is named after it`);
}

/** Boots a frozen host again: same name, addresses, keys and files as when it was frozen. */
export async function thaw({ options, alias, slot, layers }: Frozen): Promise<Host> {
  const disk = await mountDisk(alias, layers, options.diskMegabytes ?? 1024);
  return start(options, slot, new Machine(alias, disk, options.enforces));
}

/**
 * Boots a copy of a frozen host, beside other copies of it: same name, keys and files, but addresses of its own, and ssh
 * reaches it as `alias`, which no other running host may be called.
 */
export async function thawCopy({ options, layers }: Frozen, alias: string): Promise<Host> {
  assertName(alias);
  const slot = slotOf(alias);
  const disk = await mountDisk(alias, layers, options.diskMegabytes ?? 1024);
  readdress(rootOf(disk), { name: alias, slot, ipv6: !options.noIpv6 });
  nameAddress(wire.host(slot).v4, alias);
  return start(options, slot, new Machine(alias, disk, options.enforces));
}

async function start(options: BootOptions, slot: number, machine: Machine): Promise<Host> {
  const host = new Host(options, slot, machine);
  running.add(host);
  const state = await machine.isUp(host.address);
  if (state !== "running") throw new Error(`${host.name} booted ${state}:\n${await host.read("systemctl --failed")}`);
  return host;
}
