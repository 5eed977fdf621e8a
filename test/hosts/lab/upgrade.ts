/**
 * The packages with which a host of Debian 12 becomes one of Debian 13. `node test/hosts/lab/upgrade.ts` downloads missing ones
 * from the mirror, 120 MB, and caches them outside the repository.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildImages, cache, imagePath, made } from "./image.ts";
import { debianMirror } from "./mirror.ts";
import { run, step } from "./process.ts";

export const upgradePackages = (): string => join(cache(), "bookworm-to-trixie");

async function download(): Promise<void> {
  const { url, env } = await debianMirror();
  const all = { ...process.env, ...env, IMAGE: imagePath("bookworm", "packages"), RELEASE: "trixie", MIRROR: url };
  const script = new URL("upgrade.sh", import.meta.url).pathname;
  await made(upgradePackages(), async (work) => {
    await run("unshare", ["--mount", "sh", script], { env: { ...all, WORK: work }, timeout: 300_000 });
    return join(work, "packages");
  });
}

if (process.argv[1] === import.meta.filename && !existsSync(upgradePackages())) {
  await buildImages(["bookworm"]);
  await step("download the packages of an upgrade to trixie", download);
}
