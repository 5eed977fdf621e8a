/**
 * An operator upgrades a live host with published sites from Debian 12 to 13 with apt, and reboots it. While apt works no
 * delivery is rejected; one that waits and the releases outlive the reboot, and preview says what differs afterwards.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { upgradePackages } from "../lab/upgrade.ts";
import { deployedRebuild } from "../rebuild/deployed.ts";
import { front } from "../rebuild/site.ts";
import { idle, published, statusOf } from "../rebuild/status.ts";
import { repeatWhile } from "../repeat-while.ts";

const rebuild = await deployedRebuild("older", {}, { diskMegabytes: 3000 });
const { host, world } = rebuild;
const stampOf = (layer: string) => host.read(`head -n 1 ${paths.stamps}/${layer}`);

test("no delivery is rejected while apt upgrades the host, and what waits is built after the reboot, with all former runs in deploys", async () => {
  await idle(host);
  await idle(host, "docs");
  const releases = statusOf(host)!.releases;
  const runs = async (): Promise<object[]> =>
    JSON.parse((await world.stack.pushgate("deploys", "docs", "--json", "--last", "50")).stdout);
  const former = await runs();
  expect(former.length).toBeGreaterThan(0);
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
  expect(await runs()).toEqual(expect.arrayContaining(former));
});

test("preview is clean after the upgrade; up repairs what a person removes with apt", async () => {
  const clean = await world.stack.preview("--expect-no-changes");
  expect(clean.code, clean.stdout).toBe(0);
  const [before, commit] = [await stampOf("packages"), await rebuild.push({ "layouts/index.html": front("new") })];
  await published(host, commit, { timeout: 60_000 });
  await host.inside("apt-get -qq -y remove git-lfs");
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  expect(preview.diagnostics.map(({ message }) => message).join("\n")).toMatch(
    /packages: .* reports "missing: git-lfs"/,
  );
  const { done: up, seen } = await repeatWhile(
    () => world.stack.up(),
    () => world.deliver(),
    50,
  );
  expect(up.code, up.stdout).toBe(0);
  expect(seen.filter(({ status }) => status !== 202)).toEqual([]);
  expect(await stampOf("packages")).not.toBe(before);
});
