/**
 * A disk of a host that can lose its power: an ext4 image, on a file system that copies a file at one instant. A cut is
 * such a copy while everything runs: what was written back is in it, what only the page cache knew is not. The host then
 * goes on from the copy, its journal replayed, as a machine does at boot.
 */
import { mkdirSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Host } from "../lab/host.ts";
import { labFolder } from "../lab/lab.ts";
import { run } from "../lab/process.ts";

export type Disk = {
  /** The instant: what the disk holds of this moment is what the next `boot` finds. */
  readonly cut: () => Promise<void>;
  /** Takes the disk away from the host; nothing of it is in use any more. */
  readonly unplug: () => Promise<void>;
  /** Puts back the copy of the last cut. Throws where the file system is broken. */
  readonly plug: () => Promise<void>;
  /** The lab's own look at it ends; before the host is killed. */
  readonly close: () => Promise<void>;
};

/** Puts these folders of the host, with what is in them, on a disk of `megabytes`; nothing may have them open. */
export async function diskUnder(host: Host, folders: readonly string[], megabytes = 256): Promise<Disk> {
  const base = join(labFolder, `disk-${host.name}`);
  const at = (name: string) => join(base, name);
  mkdirSync(base);
  // On the machine's own disk: a copy on tmpfs would not share its blocks.
  const backing = (await run("mktemp", ["-p", "/var/tmp", "pushgate-disk-XXXXXX"])).stdout.trim();
  await run("truncate", ["-s", `${4 * megabytes}M`, backing]);
  await run("mkfs.xfs", ["-q", backing]);
  await run("mount", ["-o", "loop", backing, base]);
  // Loop and mount hold it from here on: it is gone when they are, however that comes about.
  await run("rm", [backing]);
  await run("truncate", ["-s", `${megabytes}M`, at("live")]);
  await run("mkfs.ext4", ["-q", "-F", at("live")]);

  const mountPoint = "/mnt/disk";
  async function attach(): Promise<void> {
    const device = (await run("losetup", ["--find", "--show", at("live")])).stdout.trim();
    const { rdev } = statSync(device);
    const node = `b ${rdev >> 8} ${rdev & 0xff}`;
    // Here as well, where the lab looks into the host's folders.
    await run("mount", [device, at("mounted")]);
    await host.inside(`set -e
mkdir -p ${mountPoint}
rm -f ${device} && mknod ${device} ${node}
mount -t ext4 ${device} ${mountPoint}`);
    // It goes by itself with its last mount.
    await run("losetup", ["--detach", device]);
  }
  async function bind(): Promise<void> {
    await host.inside(folders.map((folder) => `mount --bind ${mountPoint}${folder} ${folder}`).join(" && "));
    for (const folder of folders) await run("mount", ["--bind", at("mounted") + folder, host.root + folder]);
  }
  async function lookAway(): Promise<void> {
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
      await lookAway();
    },
    async plug() {
      renameSync(at("next"), at("live"));
      await attach();
      await bind();
    },
    close: lookAway,
  };
}
