/**
 * A disk of a host whose power can be cut, as hosts/cuts/disk.ts. The host continues from the copy and replays its
 * journal, as at boot.
 */
import { mkdirSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { makeImage } from "../cuts/disk.ts";
import type { Host } from "../lab/host.ts";
import { labFolder } from "../lab/lab.ts";
import { run } from "../lab/process.ts";

export type Disk = {
  /** Cuts the power: the next `plug` finds the disk as it is at this moment. */
  readonly cut: () => Promise<void>;
  /** Removes the disk from the host, which must not use it any more. */
  readonly unplug: () => Promise<void>;
  /** Attaches the copy of the last cut. Throws if its file system is broken. */
  readonly plug: () => Promise<void>;
  /** Unmounts the disk in the lab; call it before the host is killed. */
  readonly close: () => Promise<void>;
};

/** Moves these folders of the host with their files to such a disk; no process may have them open. */
export async function diskUnder(host: Host, folders: readonly string[]): Promise<Disk> {
  const base = join(labFolder, `disk-${host.name}`);
  const at = (name: string) => join(base, name);
  mkdirSync(base);
  // On the disk of the computer that runs the lab: many builds would fill its memory.
  makeImage(base, "/var/tmp");

  const mountPoint = "/mnt/disk";
  async function attach(): Promise<void> {
    const device = (await run("losetup", ["--find", "--show", at("live")])).stdout.trim();
    const { rdev } = statSync(device);
    const node = `b ${rdev >> 8} ${rdev & 0xff}`;
    // The lab also mounts it, because it reads the host's folders.
    await run("mount", [device, at("mounted")]);
    await host.inside(`set -e
mkdir -p ${mountPoint}
rm -f ${device} && mknod ${device} ${node}
mount -t ext4 ${device} ${mountPoint}`);
    // The kernel detaches the loop device after its last mount has ended.
    await run("losetup", ["--detach", device]);
  }
  async function bind(): Promise<void> {
    await host.inside(folders.map((folder) => `mount --bind ${mountPoint}${folder} ${folder}`).join(" && "));
    for (const folder of folders) await run("mount", ["--bind", at("mounted") + folder, host.root + folder]);
  }
  async function unmountInLab(): Promise<void> {
    for (const folder of folders) await run("umount", [host.root + folder]);
    await run("umount", [at("mounted")]);
  }
  mkdirSync(at("mounted"));
  await attach();
  await host.inside(
    folders
      .map(
        (folder) =>
          `mkdir -p ${mountPoint}${folder} && cp -a ${folder}/. ${mountPoint}${folder}/ && chown --reference ${folder} ${mountPoint}${folder} && chmod --reference ${folder} ${mountPoint}${folder}`,
      )
      .join("\n"),
  );
  await bind();

  return {
    async cut() {
      await run("cp", ["--reflink=always", at("live"), at("next")]);
    },
    async unplug() {
      await host.inside([...folders, mountPoint].map((folder) => `umount ${folder}`).join(" && "));
      await unmountInLab();
    },
    async plug() {
      renameSync(at("next"), at("live"));
      await attach();
      await bind();
    },
    close: unmountInLab,
  };
}
