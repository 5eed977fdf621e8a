/** Facts that do not end. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { probed, ShellHost } from "./shell-host.ts";

test("the probe ends the facts of a layer after 15 seconds, and reports those before and of other layers", () => {
  using host = new ShellHost();
  const pid = join(host.etc, "pid");
  const stubborn = `sh -c 'trap "" TERM; echo $$ >${pid}; while :; do sleep 1; done'`;
  const slow = { ...probed(host, ["echo before", stubborn, "echo after"]), name: "slow" };
  const killed = { ...probed(host, ["echo before", "kill -9 $$", "echo after"]), name: "killed" };
  const { layers } = host.report([slow, killed, probed(host, ["echo other"])]);
  for (const { facts } of [layers.slow!, layers.killed!]) expect(facts).toEqual([{ output: "before", status: 0 }]);
  expect(layers.x?.facts).toEqual([{ output: "other", status: 0 }]);
  // What has ended has no command line any more.
  const line = `/proc/${readFileSync(pid, "utf8").trim()}/cmdline`;
  expect(existsSync(line) ? readFileSync(line, "utf8") : "").toBe("");
});
