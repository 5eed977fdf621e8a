/** bootHost boots a throwaway Debian host in seconds. Programs reach it by the operator's own ssh, like a real host. */
import { readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Container } from "./container.ts";
import { imagePath, type Release, type Variant } from "./image.ts";
import { labFolder, nameAddress } from "./lab.ts";
import { wire } from "./net.ts";
import type { Ran, RunOptions } from "./process.ts";
import { freezeDisk, type Identity, mountDisk, personalize, readdress, rootOf, unmountDisk } from "./root-disk.ts";

export type CopyOptions = {
  /** Writes to the root folder of the host before it boots. */
  readonly change?: (root: string) => void;
  /** The space that the host may fill, in MiB. Default 1024; of a copy that of its original, beside what that has written. */
  readonly diskMegabytes?: number;
};

export type BootOptions = CopyOptions & {
  /** Host name, at most 12 characters, unique among the running hosts of a lab. */
  readonly name: string;
  readonly release: Release;
  readonly variant: Variant;
  /** disable_ipv6=1 on every link, loopback included. */
  readonly noIpv6?: boolean;
  /** false forbids the container to call bpf, so its systemd enforces no allowlist. Default true. */
  readonly enforces?: boolean;
};

/** The disk and identity of a powered-off host, of which `thawCopy` boots copies. */
export type Frozen = { readonly options: BootOptions; readonly layers: readonly string[] };

export class Host {
  readonly name: string;
  /** Its name in the operator's ssh config: the host name, or a copy's alias. */
  readonly alias: string;
  readonly address: string;
  /** Undefined if IPv6 is off. */
  readonly address6: string | undefined;
  private readonly options: BootOptions;
  private readonly container: Container;

  constructor(options: BootOptions, slot: number, container: Container) {
    const own = wire.host(slot);
    this.name = options.name;
    this.alias = container.name;
    this.address = own.v4;
    this.address6 = options.noIpv6 ? undefined : own.v6;
    this.options = options;
    this.container = container;
  }

  /** Runs a command as root without network, sshd or firewall: makes faults, and reads a host that locks ssh out. */
  inside(command: string, options: RunOptions = {}): Promise<Ran> {
    return this.container.inside(command, options);
  }

  /** The trimmed standard output of `inside`. */
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

  /** The journal of this boot, for one unit or for all. */
  async journal(unit?: string): Promise<string> {
    return this.read(`journalctl --boot --no-pager --output=short-precise ${unit ? `--unit='${unit}'` : ""}`);
  }

  /** Reboots in order; resolves when sshd answers again. Throws if a unit failed during the boot. */
  async reboot(): Promise<void> {
    const before = this.container.leader();
    await this.inside("systemctl --no-block reboot");
    await this.container.isUp(this.address, before);
  }

  /** Kills all processes of the host and removes its disk; the usual end of a test. */
  async kill(): Promise<void> {
    await this.container.kill();
    await unmountDisk(this.container.disk);
  }

  /** Powers off in order and keeps the disk; each copy boots from this same state. */
  async freeze(): Promise<Frozen> {
    await this.container.powerOff();
    const layers = await freezeDisk(this.container.disk);
    return { options: this.options, layers };
  }

  /** Path -> mode, owner, and hash of the content or target of the link, for all files in `folder`. */
  async snapshot(folder: string): Promise<Record<string, string>> {
    // Not trimmed: a line may end in a space, and the last line differs from boot to boot.
    const kinds = (await this.inside(`cd '${folder}' && find . -printf '%p\\t%M %u:%g %l\\n'`)).stdout.replace(
      /\n$/,
      "",
    );
    // An apply that runs meanwhile removes its temporary files: sha256sum then exits with 1, and prints all others.
    const sums = await this.read(`cd '${folder}' && find . -type f -exec sha256sum {} + 2>/dev/null || true`);
    const rows = new Map(kinds.split("\n").map((line) => line.split("\t") as [string, string]));
    for (const line of sums.split("\n")) {
      const [sum = "", path = ""] = line.split(/ [ *]/);
      rows.set(path, `${rows.get(path) ?? ""}${sum}`);
    }
    return Object.fromEntries(
      [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, row]) => [path.slice(2), row]),
    );
  }

  /** The host's root folder as the lab sees it, without file systems that the host mounts, such as /run. */
  get root(): string {
    return rootOf(this.container.disk);
  }
}

/** A name keeps its addresses until the lab ends, because ARP tables remember them. The symbolic link is the lock. */
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
  throw new Error("240 host names are in use. Reuse the name of an earlier host.");
}

/** Boots a clean host; resolves when systemd has booted and sshd answers. Throws with the console's last lines. */
export const bootHost = (options: BootOptions): Promise<Host> =>
  start(options, options.name, [imagePath(options.release, options.variant)], options, personalize);

/**
 * Boots a copy of a frozen host, beside other copies: with its name, keys and files, but with new addresses. ssh
 * reaches the copy as `alias`, which must be unique among the running hosts.
 */
export const thawCopy = ({ options, layers }: Frozen, alias: string, copied: CopyOptions = {}): Promise<Host> =>
  start(options, alias, layers, copied, readdress);

async function start(
  options: BootOptions,
  alias: string,
  layers: readonly string[],
  { change, diskMegabytes = options.diskMegabytes ?? 1024 }: CopyOptions,
  identify: (root: string, identity: Identity) => Promise<void> | void,
): Promise<Host> {
  if (!/^[a-z][a-z0-9-]{0,11}$/.test(alias))
    throw new Error(`${alias}: use at most 12 of a-z, 0-9 and "-", because the network link is named after the host`);
  const slot = slotOf(alias);
  const disk = await mountDisk(alias, layers, diskMegabytes);
  await identify(rootOf(disk), { name: alias, slot, ipv6: !options.noIpv6 });
  change?.(rootOf(disk));
  nameAddress(wire.host(slot).v4, alias, `${alias}.example.org`);
  const container = new Container(alias, disk, options.enforces);
  const host = new Host(options, slot, container);
  await container.isUp(host.address);
  return host;
}
