/**
 * The distribution's own kernel, for a machine that has one of its own (vm.ts). `node test/hosts/lab/kernel.ts` gets it from
 * the distribution where it is missing, and keeps it outside the repository.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cache } from "./image.ts";
import { run, step } from "./process.ts";

/** Without a desktop's and a server's drivers; those of a virtual machine are in it. */
const name = "linux-image-cloud-amd64";

const folder = () => join(cache(), "kernel");

export type Kernel = {
  readonly version: string;
  /** Bootable. */
  readonly image: string;
  /** Holds lib/modules/<version>. */
  readonly root: string;
};

/** Undefined where nobody has got it yet. */
export function kernel(): Kernel | undefined {
  if (!existsSync(folder())) return undefined;
  const [version] = readdirSync(join(folder(), "lib/modules"));
  return { version: version!, image: join(folder(), `boot/vmlinuz-${version}`), root: folder() };
}

async function getKernel(): Promise<void> {
  mkdirSync(cache(), { recursive: true });
  const work = mkdtempSync(join(cache(), ".kernel-"));
  try {
    const { stdout } = await run("apt-cache", ["depends", "--important", name]);
    const [, full] = /Depends: (linux-image-\S+)/.exec(stdout) ?? [];
    if (full === undefined) throw new Error(`apt knows no ${name}: apt-get update`);
    await run("sh", ["-ec", `cd ${work}; apt-get -qq download ${full} && dpkg-deb -x ./*.deb root`], {
      timeout: 300_000,
    });
    renameSync(join(work, "root"), folder());
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename && kernel() === undefined) await step("get a kernel", getKernel);
