/** An apply that does not come to its end: stopped, killed at each of its steps, out of disk. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { HostLayer } from "../../../infra/apply/layer.ts";
import { reconcile } from "../../../infra/apply/reconcile.ts";
import {
  after,
  asDeclared,
  before,
  daemonLayer,
  type Files,
  type ShellMachine,
  stampOf,
  stamps,
  standing,
} from "./shell-host.ts";

const { next } = stamps;

describe("stopped midway", () => {
  test("by its time limit: SIGTERM to all of it puts the former files back", async () => {
    using machine = standing();
    const layer = { ...daemonLayer(machine, after), activate: "echo begun >&2; sleep 30" };
    const apply = spawn("setsid", ["-w", "sh", "-s"], { stdio: ["pipe", "ignore", "pipe"] });
    let stderr = "";
    const begun = new Promise<void>((resolve) =>
      apply.stderr.on("data", (chunk) => {
        stderr += chunk;
        if (stderr.includes("begun")) resolve();
      }),
    );
    const ended = new Promise((resolve) => apply.on("close", resolve));
    apply.stdin.end(machine.script(layer, next));
    await begun;
    await pause(50);
    process.kill(-apply.pid!, "SIGTERM");
    expect(await ended).toBe(1);
    expect(stderr).toMatch(/failed at: (being stopped|activate)[\s\S]*the former files are back/);
    expect(asDeclared(machine, before, true, [])).toBe(true);
  });

  test("by kill -9 at each of its steps: no half file is live, preview is not empty, and the next apply heals", {
    timeout: 120_000,
  }, () => {
    let killed = 0;
    for (let nth = 1; ; nth++) {
      using machine = standing();
      const layer = daemonLayer(machine, after);
      const wanted = reconcile(layer, machine.see(layer));
      const ran = machine.killedApply(machine.script(layer, wanted.stamp), nth);
      if (ran.status === 0) break;
      killed++;
      const one = readFileSync(join(machine.etc, "pg-one"), "utf8");
      expect(["one\n", "1\n"]).toContain(one);
      const again = reconcile(layer, machine.see(layer));
      // Only where the stamp was the last thing left to do may it be in sync, and then it is another input than before.
      if (again.inSync) expect(stampOf(machine)).toBe(wanted.stamp);
      expect(machine.apply(layer, again.stamp)).toMatchObject({ status: 0 });
      expect(asDeclared(machine, after, true, [])).toBe(true);
      expect(machine.tree().join("\n")).not.toContain("pushgate-new");
      expect(existsSync(join(machine.state, "pending/daemon"))).toBe(false);
    }
    expect(killed).toBeGreaterThan(15);
  });

  const unobserved = (machine: ShellMachine, files: Files): HostLayer => ({
    ...daemonLayer(machine, files),
    facts: [],
  });

  test("files in place, daemon not told, and nothing to see it by: the missing stamp tells, the note says what changed", () => {
    using machine = standing();
    const layer = unobserved(machine, after);
    expect(machine.run(machine.script({ ...layer, activate: "kill -9 $PPID" }, next)).status).not.toBe(0);
    const verdict = reconcile(layer, machine.see(layer));
    expect(verdict).toMatchObject({ inSync: false, drift: ["no stamp: the last apply did not finish"] });
    expect(machine.apply(layer, verdict.stamp).status).toBe(0);
    expect(asDeclared(machine, after, true, [])).toBe(true);
  });

  test("were the former stamp left until the end, this would be missed", () => {
    using machine = standing();
    const layer = unobserved(machine, after);
    const script = machine.script({ ...layer, activate: "kill -9 $PPID" }, next);
    const removal = 'rm -rf -- "$state/stamps/$layer" && printf';
    expect(script).toContain(removal);
    machine.run(script.replace(removal, "printf"));
    expect(reconcile(layer, machine.see(layer)).inSync).toBe(true);
    expect(asDeclared(machine, after, true, [])).toBe(false);
  });

  test("were no note kept, the daemon would not be told of what the killed apply had written", () => {
    using machine = standing();
    const layer = unobserved(machine, after);
    machine.run(machine.script({ ...layer, activate: "kill -9 $PPID" }, next));
    rmSync(join(machine.state, "pending/daemon"));
    expect(machine.apply(layer, next).status).toBe(0);
    expect(asDeclared(machine, after, true, [])).toBe(false);
  });

  test("were files written in place, a kill would leave half of one live", () => {
    using machine = standing();
    const layer = daemonLayer(machine, { ...before, "pg-one": { text: "x".repeat(100_000), mode: "0644" } });
    const inPlace = machine
      .script(layer, next)
      .replace('cat -- "$work/new$1" >"$temp"', 'head -c 5 "$work/new$1" >|"$1"; kill -9 0');
    machine.run(inPlace);
    expect(readFileSync(join(machine.etc, "pg-one"), "utf8")).toBe("xxxxx");
  });
});

describe("a full disk", () => {
  const inside = (script: string) =>
    spawnSync("unshare", ["--user", "--map-root-user", "--mount", "sh", "-c", script], { encoding: "utf8" });
  const cannot = inside("mount -t tmpfs none /mnt").status !== 0;

  test.for(["etc", "var"])("on %s: what it is and the cure are named, the former files serve", (folder, ctx) => {
    if (cannot) ctx.skip("this machine refuses user namespaces: run it as root");
    using machine = standing();
    const layer = daemonLayer(machine, { ...before, "pg-one": { text: "x".repeat(60_000), mode: "0644" } });
    const files = layer.files.map((file) => ({ ...file, owner: "root:root" }));
    const script = join(machine.root, "script");
    writeFileSync(script, machine.script({ ...layer, files }, next));
    const full = join(machine.root, folder);
    const ran = inside(`cp -a ${full} ${machine.root}/was && mount -t tmpfs -o size=32k none ${full} &&
      cp -a ${machine.root}/was/. ${full} && { sh -s <${script}; echo "exit $?"; cat ${machine.etc}/pg-one; ls -A ${machine.etc}; }`);
    expect(ran.stdout).toContain("exit 1\none\n");
    expect(ran.stdout).not.toContain("pushgate-new");
    expect(ran.stderr).toMatch(/(No space left on device|I\/O error)[\s\S]*cure: see whether the disk is full/);
  });
});
