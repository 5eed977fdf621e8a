/**
 * pushgate's own nginx on a host: which rights it has and which of them it needs, and that neither a reload, nor a restart
 * after an upgrade, nor the rotation of its logs rejects a delivery. neighbours.test.ts has an nginx of the operator.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import { folders, logs } from "../../../infra/host/proxy/places.ts";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { repeatWhile } from "../repeat-while.ts";
import type { World } from "../world.ts";

let host: Host;
let world: World;

beforeAll(async () => {
  const deployed = await deployedWorld("nginx");
  world = deployed;
  [host] = deployed.hosts;
  // DEBUG
  await world.deliver();
  console.log((await host.inside((await import("node:fs")).readFileSync("/tmp/mem.sh", "utf8"), { check: false })).stdout);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

const pid = () => host.read(`systemctl show -p MainPID --value ${units.nginx}`);
const dropIn = `/etc/systemd/system/${units.nginx}.d/trial.conf`;
const status = async () => (await world.deliver()).status;

/** The distinct answers to deliveries, one after the other, while `work` runs. */
async function answersWhile(work: () => Promise<unknown>): Promise<number[]> {
  const { seen } = await repeatWhile(work, status);
  expect(seen.length).toBeGreaterThan(5);
  return [...new Set(seen)];
}

describe("its rights", () => {
  test("it has an account of its own, CAP_NET_RAW alone, and no file of the operator's nginx open or read", async () => {
    const all = await host.read(
      `for pid in $(cat /sys/fs/cgroup/system.slice/${units.nginx}/cgroup.procs); do stat -c %U /proc/$pid; grep -h '^Cap\\(Eff\\|Bnd\\|Amb\\)' /proc/$pid/status; done | sort -u`,
    );
    expect(all.split("\n").map((line) => line.replace(/\s+/, " "))).toEqual([
      "CapAmb: 0000000000002000",
      "CapBnd: 0000000000002000",
      "CapEff: 0000000000002000",
      "pushgate-nginx",
    ]);
    const text = await host.readFile("/etc/pushgate/nginx.conf");
    expect(text).not.toContain("/etc/nginx");
    expect(await host.read("systemctl is-enabled nginx.service; systemctl is-active nginx.service || true")).toBeDefined();
  });

  test.each([
    ["without CAP_NET_RAW it cannot connect from the sender's address", "AmbientCapabilities=\nCapabilityBoundingSet="],
    ["in a user namespace of its own it cannot either", "PrivateUsers=yes"],
  ])("%s, and a delivery fails", async (_, lines) => {
    await host.writeFile(dropIn, `[Service]\n${lines}\n`);
    await host.inside(`systemctl daemon-reload && systemctl restart ${units.nginx}`);
    expect(await world.deliver()).toMatchObject({ status: 500, servedBy: "pushgate-proxy" });
    await host.inside(`rm -r ${dropIn.replace(/\/[^/]*$/, "")} && systemctl daemon-reload && systemctl restart ${units.nginx}`);
    expect(await status()).toBe(202);
  });

  test("it connects to loopback alone, and without the unit's list to any address", async () => {
    const connects = (more: string) =>
      host.inside(
        `systemd-run --quiet --wait --collect --uid=pushgate-nginx ${more} bash -c 'exec 3<>/dev/tcp/${host.address}/22'`,
        { check: false },
      );
    const list = "-p IPAddressDeny=any -p IPAddressAllow=localhost";
    expect((await host.read(`systemctl show -p IPAddressDeny -p IPAddressAllow ${units.nginx}`)).split("\n").sort()).toEqual([
      "IPAddressAllow=127.0.0.0/8 ::1/128",
      "IPAddressDeny=0.0.0.0/0 ::/0",
    ]);
    expect((await connects(`${list} -p TimeoutStartSec=3 -p RuntimeMaxSec=3`)).code).not.toBe(0);
    expect((await connects("")).code).toBe(0);
  });
});

describe("no delivery is rejected", () => {
  test("while nginx reloads ten times", async () => {
    const before = await pid();
    const reloads = async () => {
      for (let i = 0; i < 10; i++) {
        await host.inside(`systemctl reload ${units.nginx}`);
        await sleep(200);
      }
    };
    expect(await answersWhile(reloads)).toEqual([202]);
    expect(await pid()).toBe(before);
  });

  test("while nginx restarts five times, or its processes are killed", async () => {
    const restarts = async () => {
      for (let i = 0; i < 5; i++) await host.inside(`systemctl restart ${units.nginx}`);
    };
    expect(await answersWhile(restarts)).toEqual([202]);
  });

  test("while an upgraded nginx, and an upgraded library, take effect within a minute", async () => {
    for (const file of ["/usr/sbin/nginx", "$(ldd /usr/sbin/nginx | sed -n 's/.*=> \\(.*libssl[^ ]*\\) .*/\\1/p')"]) {
      const before = await pid();
      const upgrade = async () => {
        // As dpkg does it: a new file, with the time of the package, takes the place of the former one.
        await host.inside(`f=$(readlink -f ${file}) && cp -p "$f" "$f.dpkg-new" && mv "$f.dpkg-new" "$f"`);
        await until(
          "nginx runs from the new file",
          async () => ((await pid()) !== before ? true : undefined),
          { timeout: 75_000 },
        );
      };
      expect(await answersWhile(upgrade)).toEqual([202]);
      expect(await host.read(`grep -c '(deleted)' /proc/$(systemctl show -p MainPID --value ${units.nginx})/maps || true`)).toBe("0");
      expect(await host.journal(units.guard)).toContain(`restarting ${units.nginx}, because these files are newer: `);
    }
  }, 200_000);

  test("while its logs are rotated: the group adm can read them, nobody else", async () => {
    const rotate = `set -e
cd ${folders.logs}
setpriv --reuid=pushgate-nginx --regid=adm --clear-groups mv hooks.log hooks.log.1
systemctl kill --kill-whom=main --signal=USR1 ${units.nginx}`;
    expect(await answersWhile(async () => {
      await host.inside(rotate);
      await until("nginx writes to a new log", async () => (await host.read(`stat -c %s ${logs.access} 2>/dev/null || true`)) > "0" || undefined);
      await sleep(1_000);
    })).toEqual([202]);
    expect(await host.read(`stat -c '%a %U:%G' ${folders.logs} ${logs.access} ${logs.error}`)).toBe(
      "2750 pushgate-nginx:adm\n640 pushgate-nginx:adm\n640 pushgate-nginx:adm",
    );
  });
});
