/** Facts that do not end, and the time of a probe. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Probed } from "../../../infra/apply/manifest.ts";
import { probed, ShellHost } from "./shell-host.ts";

describe("facts", () => {
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
});

test("the probe of 8 layers, 32 files and 32 facts takes under a second", () => {
  using host = new ShellHost();
  const layers: Probed[] = Array.from({ length: 8 }, (_, l) => ({
    name: `layer-${l}`,
    files: Array.from({ length: 4 }, (_, f) => {
      const path = join(host.etc, `l${l}-${f}`) as `/${string}`;
      writeFileSync(path, "a line of text\n".repeat(200));
      return { path };
    }),
    owns: [`${host.etc}/l${l}-*`],
    facts: Array.from({ length: 4 }, (_, f) => ({ name: "lines", read: `wc -l <${host.etc}/l${l}-${f}` })),
  }));
  // 0.19 s on two quiet cores. The best of several, and a second: other tests run beside this one.
  const times = Array.from({ length: 8 }, () => {
    const started = performance.now();
    const { layers: seen } = host.report(layers);
    expect(Object.values(seen).flatMap(({ facts }) => facts.map((fact) => fact?.output))).toEqual(
      Array(32).fill("200"),
    );
    return performance.now() - started;
  });
  expect(Math.min(...times)).toBeLessThan(1_000);
});
