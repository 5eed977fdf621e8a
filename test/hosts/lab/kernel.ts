/**
 * Debian's kernel for the virtual machine of vm.ts. `node test/hosts/lab/kernel.ts` downloads a missing kernel from the
 * distribution and caches it outside the repository.
 */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cache, made } from "./image.ts";
import { run, step } from "./process.ts";

/** The cloud kernel has the drivers of a virtual machine, and none of a desktop's or a server's hardware. */
const name = "linux-image-cloud-amd64";

const folder = () => join(cache(), "kernel");

/** `image`: the bootable file. `root` contains lib/modules/<version>. Undefined until the kernel has been downloaded. */
export function kernel() {
  if (!existsSync(folder())) return undefined;
  const [version] = readdirSync(join(folder(), "lib/modules"));
  return { version: version!, image: join(folder(), `boot/vmlinuz-${version}`), root: folder() };
}

async function getKernel(): Promise<void> {
  mkdirSync(cache(), { recursive: true });
  const { stdout } = await run("apt-cache", ["depends", "--important", name]);
  const [, full] = /Depends: (linux-image-\S+)/.exec(stdout) ?? [];
  if (full === undefined) throw new Error(`apt has no package ${name}. Run apt-get update.`);
  await made(folder(), async (work) => {
    const script = `cd ${work}; apt-get -qq download ${full} && dpkg-deb -x ./*.deb root`;
    await run("sh", ["-ec", script], { timeout: 300_000 });
    return join(work, "root");
  });
}

if (process.argv[1] === import.meta.filename && kernel() === undefined) await step("download a kernel", getKernel);
