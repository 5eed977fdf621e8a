/** What a mutant of `npm run mutate` cannot do outside of its copy of the project. */
import { accessSync, constants, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { missing } from "../infra/host/namespace.ts";
import { behindWall } from "./wall.ts";

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

test("a mutant that removes files, in the project, beside it and below /tmp, removes none", ({ skip }) => {
  const reason = missing("bwrap");
  skip(reason !== undefined, reason);
  const parents = [homedir(), resolve(".."), resolve("test"), "/tmp", "/dev/shm"].filter(isWritable);
  const files = parents.map((parent) => {
    const folder = mkdtempSync(join(parent, "pushgate-wall-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "file"), "");
    return join(folder, "file");
  });
  const script = 'rm -rf "$@"; touch .stryker-tmp/written && rm .stryker-tmp/written';
  expect(behindWall(["sh", "-c", script, "sh", ...files], "ignore")).toBe(0);
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});

test("a mutant sees no process and no network of this computer", ({ skip }) => {
  const reason = missing("bwrap");
  skip(reason !== undefined, reason);
  expect(behindWall(["sh", "-c", `kill -0 ${process.pid}`], "ignore")).not.toBe(0);
  expect(behindWall(["sh", "-c", '[ "$(tail -n +3 /proc/net/dev | wc -l)" = 1 ]'], "ignore")).toBe(0);
});

test("a test that makes namespaces of its own runs there", ({ skip }) => {
  const reason =
    missing("bwrap", "unshare") ?? (process.getuid?.() === 0 ? undefined : "only root mounts a /proc: run as root");
  skip(reason !== undefined, reason);
  const isolated = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
  expect(behindWall(["unshare", ...isolated, "true"], "ignore")).toBe(0);
});
