/** What a mutant of `npm run mutate` cannot do outside of its copy of the project. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { isolated, missing } from "../infra/host/namespace.ts";
import { behindWall, isWritable } from "./wall.ts";

const reason = missing("bwrap");
beforeEach(({ skip }) => skip(reason !== undefined, reason));

test("a mutant that removes files, in the project, beside it and below /tmp, removes none", () => {
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

test("a mutant sees no process and no network of this computer", () => {
  expect(behindWall(["sh", "-c", `kill -0 ${process.pid}`], "ignore")).not.toBe(0);
  expect(behindWall(["sh", "-c", '[ "$(tail -n +3 /proc/net/dev | wc -l)" = 1 ]'], "ignore")).toBe(0);
});

test("a test that makes namespaces of its own runs there", ({ skip }) => {
  skip(process.getuid?.() !== 0, "only root mounts a /proc: run as root");
  const without = missing("unshare");
  skip(without !== undefined, without);
  expect(behindWall(["unshare", ...isolated, "true"], "ignore")).toBe(0);
});
