/**
 * A disk whose power can be cut: an ext4 image on xfs, which copies a file at one instant. A cut is such a copy of the
 * image while everything runs: it has what was written back, and not what is in the page cache.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Unsynced } from "../../cuts/durable-steps.ts";

export function run(command: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
  return stdout.trim();
}

const megabytes = 256;

/** Mounts an xfs at `base`, which is in a file below `parent`, and makes an ext4 image on it, which it returns. */
function makeImage(base: string, parent: string): string {
  const backing = run("mktemp", "-p", parent, "pushgate-disk-XXXXXX");
  run("truncate", "-s", `${4 * megabytes}M`, backing);
  run("mkfs.xfs", "-q", backing);
  run("mount", "-o", "loop", backing, base);
  // The loop device and the mount keep the deleted file, and its space is freed when they end.
  rmSync(backing);
  const live = join(base, "live");
  run("truncate", "-s", `${megabytes}M`, live);
  run("mkfs.ext4", "-q", "-F", live);
  return live;
}

export type Terms = {
  readonly unsynced: Unsynced;
  /** The fault at which to look no further. */
  readonly until?: RegExp;
};

/** The result of a run with cuts. */
export type Cuts = {
  /** What is wrong after one or more of the cuts; empty if nothing is. */
  readonly faults: readonly string[];
  readonly cuts: number;
  /** Different states of the disk. */
  readonly states: number;
};

/** Names, kinds, sizes and contents in a folder. */
const shown = `cd "$1" && find . ! -type s -printf '%p %y %s %l\\n' | sort && find . -type f -exec cksum {} + | sort`;

export class CutDisk {
  /** Where it is mounted. */
  readonly folder: string;
  /** A program that cuts the power: the run goes on, and `afterEach` shows what the disk had. */
  readonly program: string;
  private readonly base = mkdtempSync(join(tmpdir(), "pushgate-cut-"));
  private readonly until: RegExp | undefined;

  constructor({ unsynced, until }: Terms) {
    this.until = until;
    const at = (name: string) => join(this.base, name);
    this.folder = at("disk");
    this.program = at("cut");
    const image = at("image");
    for (const folder of [image, this.folder]) mkdirSync(folder);
    const live = makeImage(image, existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
    mkdirSync(join(image, "cuts"));
    this.mount(live);
    const other = join(this.folder, ".other");
    const journal = unsynced === "names" ? `echo >>${other} && sync ${other}` : ":";
    writeFileSync(
      this.program,
      `#!/bin/sh
PATH=/usr/bin:/bin
cd ${image}/cuts && ${journal} && exec cp --reflink=always ../live "$(ls | wc -l | xargs printf %04d)"
`,
      { mode: 0o755 },
    );
  }

  /** Brings all that was written to the disk. */
  sync(): void {
    run("sync", "-f", this.folder);
  }

  cut(): void {
    run(this.program);
  }

  private get cuts(): readonly string[] {
    return readdirSync(join(this.base, "image/cuts")).sort();
  }

  /** Calls `look` for each different state of the folder, with that state in place of the live one. */
  async afterEach(
    folder: string,
    look: (cut: number, isLast: boolean) => readonly string[] | Promise<readonly string[]>,
  ): Promise<Cuts> {
    const faults = new Set<string>();
    const seen = new Set<string>();
    for (const [number, cut] of this.cuts.entries()) {
      this.mount(join(this.base, "image/cuts", cut));
      try {
        const state = run("sh", "-c", shown, "sh", folder);
        const isLast = cut === this.cuts.at(-1);
        if (seen.has(state) && !isLast) continue;
        seen.add(state);
        for (const fault of await look(number, isLast)) faults.add(fault);
        if ([...faults].some((fault) => this.until?.test(fault))) break;
      } finally {
        run("umount", "--lazy", this.folder);
      }
    }
    return { faults: [...faults], cuts: this.cuts.length, states: seen.size };
  }

  [Symbol.dispose](): void {
    // At once from the names, and from the devices when the last process has left them.
    while (spawnSync("umount", ["--lazy", this.folder]).status === 0);
    run("umount", "--lazy", join(this.base, "image"));
    rmSync(this.base, { recursive: true });
  }

  /** Without ext4's habit of writing a file before it replaces another one, which no other file system has. */
  private mount(image: string): void {
    run("mount", "-o", "loop,noauto_da_alloc", image, this.folder);
  }
}
