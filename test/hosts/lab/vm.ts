/**
 * A virtual machine with its own kernel, in place of a host of the lab. A container gets only the control group
 * controllers that the outer system leaves to it: none, if that system counts memory, processes or processor time in
 * the old hierarchy. The processor is emulated, so everything takes ten times as long.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Host } from "./host.ts";
import { kernel } from "./kernel.ts";
import { wire } from "./net.ts";
import { type Ran, run, until } from "./process.ts";

/** Kernel modules that the initrd loads before it mounts the tree: a container's tree has no modules or modprobe. */
const modules = [
  ...["virtio_pci", "virtio_blk", "virtio_net"],
  ...["nf_tables", "nft_ct", "nft_limit", "nft_log", "nft_reject_inet", "nft_objref", "nft_fib_inet"],
  ...["nf_log_syslog", "tcp_diag"],
];
const moduleFolders = [
  "drivers/virtio",
  "drivers/block",
  "drivers/net/virtio_net.ko",
  "drivers/net/net_failover.ko",
  "lib",
  "net",
];

/** The reason why this computer cannot boot a virtual machine; undefined if it can. */
export function vmIsMissing(): string | undefined {
  if (process.arch !== "x64") return "the virtual machine needs an x86_64 processor";
  if (!existsSync("/dev/net/tun")) return "/dev/net/tun, which connects the virtual machine, is missing";
  if (!existsSync("/usr/bin/qemu-system-x86_64") || !existsSync("/usr/bin/busybox"))
    return "not installed: apt-get install qemu-system-x86 busybox-static";
  return kernel() === undefined ? "the kernel is missing. Run node test/hosts/lab/kernel.ts" : undefined;
}

export type Vm = Awaited<ReturnType<typeof bootVm>>;

/** Kills the host without a shutdown and boots its disk as a virtual machine with the same name, addresses and keys. */
export async function bootVm(host: Host) {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-vm-"));
  const at = (name: string) => join(folder, name);
  // The ARP tables of the lab remember this address, also for the next host of this name.
  const mac = await host.read("sync; cat /sys/class/net/host0/address");
  await makeDisk(host, at("tree"), at("disk"));
  await host.kill();
  await makeInitrd(at("initrd"));
  await run("sh", ["-ec", "ip tuntap add dev vm0 mode tap; ip link set vm0 master lab0 up"]);
  const console = openSync(at("console"), "w");
  const { image } = kernel()!;
  const words = [
    ..."-M q35 -cpu max -m 1536 -smp 2 -nographic -no-reboot".split(" "),
    ...["-kernel", image, "-initrd", at("initrd.gz")],
    ...["-append", "console=ttyS0 net.ifnames=0 mitigations=off random.trust_cpu=on"],
    ...["-drive", `file=${at("disk")},if=virtio,format=raw,cache=unsafe`],
    ...["-netdev", "tap,id=lab,ifname=vm0,script=no,downscript=no", "-device", `virtio-net-pci,netdev=lab,mac=${mac}`],
  ];
  const machine = spawn("qemu-system-x86_64", words, { stdio: ["ignore", console, console] });
  closeSync(console);
  /** Runs a command as root over SSH; throws on a non-zero exit unless `check: false`. */
  const ssh = (command: string, options: { readonly check?: boolean } = {}): Promise<Ran> =>
    run("ssh", ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", `root@${host.alias}`, command], options);
  try {
    await until("the virtual machine answers", () => answers(machine, ssh), { timeout: 300_000, pause: 1_000 });
  } catch (error) {
    machine.kill("SIGKILL");
    throw new Error(`${(error as Error).message}\n${readFileSync(at("console"), "utf8").slice(-2_000)}`);
  }
  return {
    ssh,
    /** The trimmed standard output of `ssh`. */
    read: async (command: string) => (await ssh(command)).stdout.trim(),
    async close(): Promise<void> {
      const ended = new Promise((resolve) => machine.once("close", resolve));
      machine.kill("SIGKILL");
      await ended;
      await run("ip", ["link", "delete", "vm0"]);
      rmSync(folder, { recursive: true });
    },
  };
}

async function answers({ exitCode }: ChildProcess, ssh: Vm["ssh"]): Promise<true | undefined> {
  if (exitCode !== null) throw new Error("the virtual machine ended");
  return (await ssh("true", { check: false })).code === 0 ? true : undefined;
}

/** networkd waits for udev to report a link, and an image for containers has no udev. */
const network = ({ address, address6 }: Host) => `[Unit]
Description=the lab's network
Before=network.target
Wants=network.target

[Service]
Type=oneshot
ExecStart=/sbin/ip link set eth0 up
ExecStart=/sbin/ip address add ${address}/24 dev eth0
ExecStart=/sbin/ip address add ${address6}/64 dev eth0 nodad
ExecStart=/sbin/ip route add default via ${wire.gateway.v4}
ExecStart=/sbin/ip route add default via ${wire.gateway.v6}
`;

async function makeDisk(host: Host, tree: string, disk: string): Promise<void> {
  mkdirSync(tree);
  await run("sh", ["-ec", `tar -C ${host.root} --one-file-system --xattrs -cf - . | tar -C ${tree} --xattrs -xpf -`]);
  const units = join(tree, "etc/systemd/system");
  writeFileSync(join(units, "lab-network.service"), network(host));
  await run("sh", [
    "-ec",
    `mkdir -p ${units}/multi-user.target.wants
ln -s ../lab-network.service ${units}/multi-user.target.wants/
for unit in kmod-static-nodes systemd-modules-load; do ln -sf /dev/null ${units}/$unit.service; done
mke2fs -q -t ext4 -d ${tree} ${disk} 3G
rm -r ${tree}`,
  ]);
}

const init = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev && mount -t proc proc /proc && mount -t sysfs sys /sys
for module in ${modules.join(" ")}; do modprobe $module; done
n=0
until [ -e /dev/vda ] || [ $n -ge 100 ]; do sleep 0.1; n=$((n + 1)); done
mount -t ext4 /dev/vda /root && umount /sys /proc && exec switch_root /root /lib/systemd/systemd
`;

async function makeInitrd(root: string): Promise<void> {
  const { version, root: from } = kernel()!;
  const library = `lib/modules/${version}/kernel`;
  for (const folder of ["bin", "dev", "proc", "sys", "root"]) mkdirSync(join(root, folder), { recursive: true });
  cpSync("/usr/bin/busybox", join(root, "bin/busybox"));
  for (const part of moduleFolders)
    if (existsSync(join(from, library, part)))
      cpSync(join(from, library, part), join(root, library, part), { recursive: true });
  writeFileSync(join(root, "init"), init, { mode: 0o755 });
  await run("sh", [
    "-ec",
    `cd ${root}; busybox depmod -b . ${version}; find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >${root}.gz`,
  ]);
}
