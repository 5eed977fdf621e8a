/**
 * A host, its zone and its state as `up` of a released version left them. `released/<version>.tgz` holds the files that the
 * version put on a host, the stack with its state and the zone; a host is booted and the files are put there, so the
 * distribution is that of the run. `npm exec -- node test/hosts/released.ts` stores the present version, before its release
 * (CONTRIBUTING.md).
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { version } from "../../infra/apply/version.ts";
import { placeOf, worldIn } from "./deployed.ts";
import { bootHost } from "./lab/host.ts";
import { withLab } from "./lab/lab.ts";
import { run } from "./lab/process.ts";
import { engineReady } from "./ready.ts";
import { release } from "./release.ts";
import { buildWorld } from "./world.ts";

const folder = new URL("released/", import.meta.url).pathname;
const name = "released";

/** Below the root of the host; the machine-id is a part of the key that encrypts its secrets. */
const ofHost = `etc/machine-id var/lib/systemd/credential.secret etc/pushgate etc/systemd/system/pushgate*
etc/systemd/system/*.wants/pushgate* etc/sysusers.d/pushgate* etc/tmpfiles.d/pushgate* etc/logrotate.d/pushgate*
usr/local/lib/pushgate var/lib/pushgate`;

export const releasedVersions = (): string[] => readdirSync(folder).map((file) => basename(file, ".tgz"));

async function store(): Promise<void> {
  const host = await bootHost({ name, release: "bookworm", variant: "packages" });
  const world = await buildWorld([host], { passphrase: true });
  const up = await world.stack.up();
  if (up.code !== 0) throw new Error(up.stdout);
  const work = mkdtempSync(join(tmpdir(), "pushgate-released-"));
  const stacks = "state/.pulumi/stacks/pushgate";
  mkdirSync(join(work, "stack", stacks), { recursive: true });
  for (const file of ["Pulumi.test.yaml", `${stacks}/test.json`, "state/.pulumi/meta.yaml"])
    cpSync(join(world.stack.folder, file), join(work, "stack", file));
  cpSync(world.api.authority.folder, join(work, "authority"), { recursive: true });
  writeFileSync(join(work, "kept.json"), JSON.stringify({ place: placeOf(host, world.api.url), zone: world.api.zone }));
  mkdirSync(join(work, "host"));
  await run("sh", [
    "-ec",
    `cd '${host.root}' && tar -cf - ${ofHost.replaceAll("\n", " ")} | tar -xf - -C '${work}/host'`,
  ]);
  mkdirSync(folder, { recursive: true });
  await run("tar", ["-czf", join(folder, `${version}.tgz`), "-C", work, "."]);
  await host.kill();
}

/** Boots the host of a released version and starts the world around it. */
export async function releasedWorld(version: string) {
  const from = mkdtempSync(join(tmpdir(), "pushgate-released-"));
  await run("tar", ["-xzf", join(folder, `${version}.tgz`), "-C", from]);
  const put = (root: string) => cpSync(join(from, "host"), root, { recursive: true, verbatimSymlinks: true });
  const host = await bootHost({ name, release, variant: "packages", change: put });
  const world = await worldIn(from, host);
  rmSync(from, { recursive: true });
  return { world, host };
}

if (process.argv[1] === import.meta.filename) {
  await engineReady();
  await withLab({ releases: ["bookworm"] }, store);
}
