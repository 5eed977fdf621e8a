/**
 * A run leaves no process, mount, network namespace or control group, whether it returns, throws or is interrupted.
 * Run `node test/hosts/lab/interrupt.selftest.ts` as root. After SIGKILL an empty control group may remain, which the
 * next run removes.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { labGroups } from "./cgroup.ts";
import { bootHost } from "./host.ts";
import { withLab } from "./lab.ts";
import { run, until } from "./process.ts";
import { isAlive } from "./run-owner.ts";

const file = new URL(import.meta.url).pathname;

if (process.argv[2] === "victim") {
  await withLab({ releases: ["bookworm"] }, async () => {
    await bootHost({ name: "web1", release: "bookworm", variant: "bare" });
    console.log("booted");
    if (process.argv[3] === "stays") await new Promise((resolve) => setTimeout(resolve, 60_000));
    if (process.argv[3] === "throws") throw new Error("a failed suite throws like this");
  });
}

const mounts = () => readFileSync("/proc/self/mounts", "utf8");
/** Processes of the victim `pid`: their environment has the variable that only processes of a lab have. */
const processes = (pid: number) =>
  readdirSync("/proc").filter((entry) => {
    try {
      return /^\d+$/.test(entry) && readFileSync(`/proc/${entry}/environ`, "utf8").includes(`pushgate-lab-${pid}-`);
    } catch {
      return false;
    }
  });

const groupsOf = (pid: number) => labGroups().filter((group) => group.includes(`-${pid}-`));

const dead = (groups: readonly string[]) =>
  groups.filter((group) => !isAlive(basename(group).replace("pushgate-lab-", "")));

let failed = 0;
const before = { mounts: mounts(), namespaces: (await run("lsns", ["-n", "-t", "net"])).stdout.split("\n").length };

for (const end of ["SIGINT", "SIGTERM", "SIGKILL", "throws", "returns"] as const) {
  const how = end.startsWith("SIG") ? "stays" : end;
  const victim = spawn(process.execPath, [file, "victim", how], { stdio: ["ignore", "pipe", "ignore"] });
  const pid = victim.pid ?? 0;
  const code = new Promise((resolve) => victim.on("close", (status, signal) => resolve(status ?? signal)));
  try {
    await new Promise<void>((resolve) => victim.stdout.on("data", (line) => `${line}`.includes("booted") && resolve()));
    if (how === "stays") {
      assert.ok(processes(pid).length > 1);
      assert.ok(groupsOf(pid).length > 0);
      victim.kill(end as NodeJS.Signals);
    }
    const expected = { SIGKILL: "SIGKILL", SIGINT: 130, SIGTERM: 143, throws: 1, returns: 0 };
    assert.equal(await code, expected[end]);
    await until("its processes are gone", () => processes(pid).length === 0 || undefined, { timeout: 5000 });
    if (end !== "SIGKILL") assert.deepEqual(groupsOf(pid), []);
    assert.equal(mounts(), before.mounts);
    assert.equal((await run("lsns", ["-n", "-t", "net"])).stdout.split("\n").length, before.namespaces);
    if (end === "returns") assert.deepEqual(dead(labGroups()), []);
    console.log(`${end}: ok`);
  } catch (error) {
    failed += 1;
    console.log(`${end}: FAILED\n${(error as Error).stack}`);
  }
}
// The runs after SIGKILL have also removed the control group of the killed run.
console.log(`\n${5 - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
