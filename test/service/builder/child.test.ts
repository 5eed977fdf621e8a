/** The limits of a child process, whatever the program does. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mostOutput, runChild } from "../../../service/builder/child.ts";
import { ifThere } from "../../../service/builder/files.ts";
import { timers } from "./harness.ts";

const shell = (script: string, more: Partial<Parameters<typeof runChild>[2]> = {}) =>
  runChild("sh", ["-c", script], { cwd: "/", env: { PATH: process.env.PATH ?? "" }, seconds: 30, ...more });

/** The process whose number this is ends soon: /proc has no command line of one that has ended. */
const ends = (pid: string) =>
  expect.poll(() => ifThere(() => readFileSync(`/proc/${Number(pid)}/cmdline`, "utf8")) ?? "").toBe("");

test.each([
  ["ignores", "trap '' TERM; sleep 60; sleep 60", { code: undefined, signal: "SIGKILL" }],
  ["obeys", "trap 'echo ended; exit 5' TERM; while :; do sleep 0.1; done", { code: 5, stdout: "ended\n" }],
])("a child that %s SIGTERM ends after the time limit", async (_, script, ended) => {
  expect(await shell(script, { seconds: 0.5 })).toMatchObject({ ...ended, late: true });
});

test("a child that is stopped ends at once, with what it started, whatever it does about SIGTERM", async () => {
  const stop = new AbortController();
  const running = shell("trap '' TERM; sleep 60 & echo $!; wait", { seconds: 60, stop: stop.signal });
  const from = performance.now();
  setTimeout(() => stop.abort(), 300);
  const { stdout, ...ended } = await running;
  expect(ended).toMatchObject({ code: undefined, signal: "SIGKILL", late: false });
  expect(performance.now() - from).toBeLessThan(2_000);
  await ends(stdout);
});

test("a child that writes more than the longest list of git is killed there, and not a byte before", async () => {
  const { stdout, ...ended } = await shell("trap '' TERM; yes");
  expect([ended, stdout.length]).toMatchObject([{ cut: true, code: undefined, signal: "SIGKILL" }, mostOutput]);
  const whole = await shell(`head -c ${mostOutput} /dev/zero`);
  expect([whole.cut, whole.code, whole.stdout.length]).toEqual([false, 0, mostOutput]);
});

test("no timer of a child that has ended is left", async () => {
  const before = timers();
  await shell("exit 0");
  expect(timers()).toBeLessThanOrEqual(before);
});

test("what a child left behind ends with it, whatever it does about SIGTERM", async () => {
  const { stdout } = await shell("trap '' TERM; sleep 60 >/dev/null 2>&1 & echo $!");
  await ends(stdout);
});

test("a grandchild that holds the pipes holds nothing up", async () => {
  const from = performance.now();
  expect(await shell("echo out; sleep 20 & exit 0")).toMatchObject({ code: 0, stdout: "out\n", late: false });
  expect(performance.now() - from).toBeLessThan(10_000);
});

test("of a long error the end is kept", async () => {
  const { code, stderr } = await shell("yes | head -c 1000000 >&2; echo last >&2; exit 1");
  expect(code).toBe(1);
  expect(stderr).toHaveLength(64 << 10);
  expect(stderr).toMatch(/\nlast\n$/);
});

test("the error names a program that is not installed", async () => {
  const ended = await runChild("/nonexistent/git", [], { cwd: "/", env: {}, seconds: 1 });
  expect(ended).toMatchObject({ code: undefined, stderr: "spawn /nonexistent/git ENOENT" });
});
