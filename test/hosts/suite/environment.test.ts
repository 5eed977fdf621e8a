/** A host whose logins, shell and mounts differ from Debian's: what pushgate runs there does not depend on them. */
import { expect, test } from "vitest";
import { succeeded } from "../../engine/program-stack.ts";
import { ending } from "../deployed.ts";
import { bootHost } from "../lab/host.ts";
import { release } from "../release.ts";
import { buildWorld, hostEntry } from "../world.ts";

const host = await bootHost({ name: "odd", release, variant: "packages" });
const hosts = [hostEntry(host, { ssh: `deploy@${host.alias}`, sudo: true })];
const world = ending(await buildWorld([host], { config: { "pushgate:hosts": hosts } }), host);

test("up and audit run where /bin/sh is bash, a login prints and has little, sudo lectures, and /tmp runs nothing", async () => {
  await host.inside(`set -e
ln -sf bash /bin/sh
mount -t tmpfs -o noexec,nosuid,nodev tmpfs /tmp
printf '%s\\n' 'Defaults lecture=always, env_reset, use_pty' 'Defaults secure_path="/usr/bin:/bin"' >/etc/sudoers.d/strict
cd /home/deploy
printf '%s\\n' 'echo Welcome' 'echo warning >&2' 'umask 077' 'export PATH=/usr/bin:/bin TERM=dumb' >.bashrc.new
cat .bashrc >>.bashrc.new
mv .bashrc.new .bashrc
chown root: . && chmod 555 .`);
  succeeded(await world.stack.up());
  succeeded(await world.stack.preview("--expect-no-changes"));
  expect(await world.deliver()).toMatchObject({ status: 202 });
});
