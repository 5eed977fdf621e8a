/** The root file system of one host: an image, a tmpfs above it for the host's writes, and its identity files. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { labFolder } from "./lab.ts";
import { wire } from "./net.ts";
import { run } from "./process.ts";
import { hostKey, meet, operatorKey } from "./ssh.ts";

export type Identity = { readonly name: string; readonly slot: number; readonly ipv6: boolean };

/** A host's disk; `layers` are the read-only folders below it, topmost first. */
export type Disk = { readonly folder: string; readonly layers: readonly string[] };

const folderOf = (name: string) => join(labFolder, "hosts", name);
export const rootOf = (disk: Disk) => join(disk.folder, "root");

/** Mounts a disk to which the host can write `megabytes` MiB. */
export async function mountDisk(name: string, layers: readonly string[], megabytes: number): Promise<Disk> {
  const folder = folderOf(name);
  if (existsSync(folder)) throw new Error(`${name} is already running. End it, or boot a host with another name.`);
  mkdirSync(folder);
  await run("mount", ["-t", "tmpfs", "-o", `mode=755,size=${megabytes}m`, "tmpfs", folder]);
  const part = (of: string) => {
    mkdirSync(join(folder, of));
    return join(folder, of);
  };
  const options = `lowerdir=${layers.join(":")},upperdir=${part("upper")},workdir=${part("work")}`;
  await run("mount", ["-t", "overlay", "-o", options, "overlay", part("root")]);
  return { folder, layers };
}

export async function unmountDisk(disk: Disk): Promise<void> {
  await run("umount", [rootOf(disk)]);
  await run("umount", [disk.folder]);
  rmSync(disk.folder, { recursive: true });
}

let frozen = 0;
/** Moves the disk of a powered-off host aside and returns it as layers, from which the same host can boot again. */
export async function freezeDisk(disk: Disk): Promise<readonly string[]> {
  await run("umount", [rootOf(disk)]);
  const kept = join(labFolder, `frozen-${process.pid}-${frozen++}`);
  mkdirSync(kept);
  await run("mount", ["--move", disk.folder, kept]);
  rmSync(disk.folder, { recursive: true });
  return [join(kept, "upper"), ...disk.layers];
}

/** Writes the files that differ between hosts of one image: machine-id, name, addresses, keys. */
export async function personalize(root: string, { name, slot, ipv6 }: Identity): Promise<void> {
  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text, { mode });
  };
  // With an empty machine-id systemd would treat this as the first boot and enable units by preset.
  write("etc/machine-id", `${randomBytes(16).toString("hex")}\n`);
  write("etc/hostname", `${name}\n`);
  write("etc/hosts", `127.0.0.1 localhost\n127.0.1.1 ${name}\n${ipv6 ? "::1 localhost ip6-localhost\n" : ""}`);
  settle(root, { slot, ipv6 });
  if (!ipv6) {
    const off = ["all", "default", "lo"].map((link) => `net.ipv6.conf.${link}.disable_ipv6 = 1\n`).join("");
    write("etc/sysctl.d/90-no-ipv6.conf", off);
  }
  for (const home of ["root", "home/deploy", "home/guest"]) {
    mkdirSync(join(root, home, ".ssh"), { mode: 0o700, recursive: true });
    write(`${home}/.ssh/authorized_keys`, operatorKey(), 0o600);
    await run("chown", ["-R", "--reference", join(root, home), join(root, home, ".ssh")]);
  }
  await hostKey(name, wire.host(slot).v4, keysOf(root));
}

const keysOf = (root: string) => join(root, "etc/ssh");

/** Writes the network configuration with the addresses of this slot. */
function settle(root: string, { slot, ipv6 }: Pick<Identity, "slot" | "ipv6">): void {
  const own = wire.host(slot);
  const v4 = `Address=${own.v4}/24\nGateway=${wire.gateway.v4}\n`;
  const v6 = `Address=${own.v6}/64\nGateway=${wire.gateway.v6}\nIPv6AcceptRA=no\nIPv6DuplicateAddressDetection=0\n`;
  const network = `[Match]\nName=host0\n\n[Network]\n${v4}${ipv6 ? v6 : "LinkLocalAddressing=no\n"}`;
  const file = join(root, "etc/systemd/network/10-uplink.network");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, network);
}

/** Changes the addresses of an existing identity, which must be unique in the lab. */
export function readdress(root: string, identity: Identity): void {
  settle(root, identity);
  meet(identity.name, wire.host(identity.slot).v4, keysOf(root));
}
