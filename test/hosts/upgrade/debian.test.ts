/**
 * An operator upgrades a live host with published sites from Debian 12 to 13 with apt, and reboots it. While apt works no
 * delivery is rejected; one that waits and the releases outlive the reboot, and preview is clean afterwards.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import { upgradePackages } from "../lab/upgrade.ts";
import { deployedRebuild } from "../rebuild/deployed.ts";
import { front } from "../rebuild/site.ts";
import { bothIdle, published, statusOf } from "../rebuild/status.ts";
import { repeatWhile } from "../repeat-while.ts";

const rebuild = await deployedRebuild("older", { diskMegabytes: 3000 });
const { host, world } = rebuild;

test("no delivery is rejected while apt upgrades the host, and what waits is built after the reboot", async () => {
  await bothIdle(host);
  const releases = statusOf(host)!.releases;
  // A delivery that no build takes before the reboot.
  await host.inside(`systemctl stop ${units.site("docs")}`);
  const waiting = await rebuild.push({ "layouts/index.html": front("waited") }, "docs");
  cpSync(upgradePackages(), join(host.root, "opt/trixie"), { recursive: true });
  const apt = "apt-get -qq -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io";
  const upgrade = `set -e
echo 'deb [trusted=yes] file:/opt/trixie ./' >/etc/apt/sources.list
export DEBIAN_FRONTEND=noninteractive
${apt} update && ${apt} -y dist-upgrade`;
  const { seen } = await repeatWhile(
    () => host.inside(upgrade, { timeout: 550_000 }),
    () => world.deliver(),
    50,
  );
  expect(await host.read(". /etc/os-release && echo $VERSION_ID")).toBe("13");
  expect(seen.length).toBeGreaterThan(100);
  expect(seen.filter(({ status }) => status !== 202)).toEqual([]);
  await host.reboot();
  await published(host, waiting, { hook: "docs", timeout: 120_000 });
  expect(statusOf(host)!.releases).toEqual(releases);
});

test("preview is clean after the upgrade, and the next push is published", async () => {
  await world.stack.cleanPreview();
  const commit = await rebuild.push({ "layouts/index.html": front("new") });
  await published(host, commit, { timeout: 60_000 });
});
