/**
 * pushgate's own nginx on a host: where it can connect to, and that neither a restart after an upgrade nor the rotation of its
 * logs rejects a delivery. leave.test.ts has an nginx of the operator, and reboot.test.ts restarts and reloads this one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { nginxFolders, nginxLogs, paths, units } from "../../../infra/host/paths.ts";
import { deployedWorld } from "../deployed.ts";
import { until } from "../lab/process.ts";
import { repeatWhile } from "../repeat-while.ts";

const { world, host } = await deployedWorld("nginx");

const pid = () => host.read(`systemctl show -p MainPID --value ${units.nginx}`);
const status = async () => (await world.deliver()).status;

/** The distinct answers to deliveries, one after the other, while `work` runs. */
async function answersWhile(work: () => Promise<unknown>): Promise<number[]> {
  const { seen } = await repeatWhile(work, status);
  expect(seen.length).toBeGreaterThan(2);
  return [...new Set(seen)];
}

test("it has an account of its own, and CAP_NET_RAW alone", async () => {
  const processes = `/sys/fs/cgroup/system.slice/${units.nginx}/cgroup.procs`;
  const each = "stat -c %U /proc/$pid; grep -h '^Cap\\(Eff\\|Bnd\\|Amb\\)' /proc/$pid/status";
  const all = await host.read(`for pid in $(cat ${processes}); do ${each}; done | sort -u`);
  const capabilities = ["Amb", "Bnd", "Eff"].map((kind) => `Cap${kind}: 0000000000002000`);
  expect(all.split("\n").map((line) => line.replace(/\s+/, " "))).toEqual([...capabilities, "pushgate-nginx"]);
});

test("it connects to loopback alone, and without the unit's list to any address", async () => {
  const connects = async (list: string) => {
    const connect = `timeout 1 bash -c "exec 3<>/dev/tcp/${host.address}/22"`;
    return (await host.inside(`systemd-run --quiet --wait --collect ${list} ${connect}`, { check: false })).code === 0;
  };
  const list = `systemctl show -p IPAddressDeny -p IPAddressAllow ${units.nginx} | sed 's/.*/-p "&"/' | paste -sd ' ' -`;
  expect(await connects(await host.read(list))).toBe(false);
  expect(await connects("")).toBe(true);
});

describe("no delivery is rejected", () => {
  const libssl = "$(ldd /usr/sbin/nginx | sed -n 's/.*=> \\(.*libssl[^ ]*\\) .*/\\1/p')";
  test.each([
    ["nginx", "/usr/sbin/nginx"],
    ["OpenSSL", libssl],
  ])(
    "while an upgrade of %s takes effect, by the guard's next run",
    async (_, file) => {
      const before = await pid();
      const upgrade = async () => {
        // As dpkg does it: a new file, with the time of the package, takes the place of the former one.
        await host.inside(`f=$(readlink -f ${file}) && cp -p "$f" "$f.dpkg-new" && mv "$f.dpkg-new" "$f"`);
        // Which its timer begins each minute. One that ran already may have looked before the upgrade.
        await host.inside(`systemctl start ${units.guard}`);
        const restarted = async () => (["0", before].includes(await pid()) ? undefined : true);
        await until("nginx runs from the new file", restarted, { timeout: 75_000 });
      };
      expect(await answersWhile(upgrade)).toEqual([202]);
      // nginx's shared memory is /dev/zero, which is always deleted.
      expect(await host.read(`sed -n '/^[^/]*.dev.zero /d; / (deleted)/p' /proc/${await pid()}/maps`)).toBe("");
      expect(await host.journal(units.guard)).toContain(`restarting ${units.nginx}, because these files are newer: `);
    },
    120_000,
  );

  test("while its logs are rotated, which only root and the group adm can read", async () => {
    const rotated = async () => {
      await host.inside(`cd ${nginxFolders.logs} && mv hooks.log hooks.log.1 && ${signal}`);
      await until("nginx writes to a new log", async () =>
        Number(await host.read(`stat -c %s ${nginxLogs.access} 2>/dev/null || echo 0`)) > 0 ? true : undefined,
      );
      await sleep(1_000);
    };
    const [, signal] = /postrotate\n\s*(.*)\n/.exec(await host.readFile(paths.nginxOwn.logrotate))!;
    expect(await answersWhile(rotated)).toEqual([202]);
    expect(await host.read(`stat -c '%a %U:%G' ${nginxFolders.logs} ${nginxLogs.access} ${nginxLogs.error}`)).toBe(
      "2750 pushgate-nginx:adm\n640 pushgate-nginx:adm\n640 pushgate-nginx:adm",
    );
  });
});
