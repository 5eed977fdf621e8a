/** Facts that do not end. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { probeScript } from "../../../infra/apply/manifest.ts";
import { parseProbe } from "../../../infra/apply/report.ts";
import { probed, ShellHost } from "./shell-host.ts";

test("the probe ends the facts of a layer that take too long or are killed, and reports those before and of other layers", () => {
  using host = new ShellHost();
  const pid = join(host.etc, "pid");
  const stubborn = `sh -c 'trap "" TERM; echo $$ >${pid}; while :; do sleep 1; done'`;
  const slow = { ...probed(host, ["echo before", stubborn, "echo after"]), name: "slow" };
  const kill = "read -r _ _ _ layer _ </proc/self/stat; kill -9 $layer";
  const killed = { ...probed(host, ["echo before", kill, "echo after"]), name: "killed" };
  const all = [slow, killed, probed(host, ["echo other"])];
  const script = probeScript(all, host.state);
  expect(script).toContain("timeout -s KILL 30 ");
  const { stdout } = host.run(script.replace("KILL 30", "KILL 3"));
  const { layers } = parseProbe(stdout, ["slow", "killed", "x"]);
  for (const { facts } of [layers.slow!, layers.killed!]) expect(facts).toEqual([{ output: "before", status: 0 }]);
  expect(layers.x?.facts).toEqual([{ output: "other", status: 0 }]);
  // What has ended has no command line any more.
  const line = `/proc/${readFileSync(pid, "utf8").trim()}/cmdline`;
  expect(existsSync(line) ? readFileSync(line, "utf8") : "").toBe("");
});

test("the probe goes on where systemd does not say which units are enabled and active", () => {
  using host = new ShellHost();
  const program = "#!/bin/sh\ncase $1 in list-units) sleep 60 ;; *) echo queried ;; esac\n";
  writeFileSync(join(host.root, "systemctl"), program, { mode: 0o755 });
  const layer = probed(host, ["systemctl is-active a.service"]);
  const began = performance.now();
  const { stdout } = host.run(probeScript([layer], host.state), { PATH: `${host.root}:${process.env.PATH}` });
  expect(parseProbe(stdout, [layer.name]).layers[layer.name]?.facts).toEqual([{ output: "queried", status: 0 }]);
  expect(performance.now() - began).toBeLessThan(10_000);
});
