/** `npm run demo`: one row for each layer, each as declared, with a page, and without the tools for one. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cannotPublish } from "./publish.ts";

/** It exits with 1 where a layer is not as declared. */
function demo(env = process.env): string {
  const file = new URL("../demo.ts", import.meta.url).pathname;
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], { encoding: "utf8", env });
  expect(status, stderr).toBe(0);
  return stdout;
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-path-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("cannotPublish names an old Hugo with the command that installs it", ({ skip }) => {
  skip(cannotPublish() !== undefined, cannotPublish());
  writeFileSync(join(folder, "hugo"), "#!/bin/sh\necho hugo v0.92.2+extended linux/amd64\n", { mode: 0o755 });
  vi.stubEnv("PATH", `${folder}:${process.env.PATH}`);
  expect(cannotPublish()).toMatch(/^Hugo is 0\.92, older than 0\.111: apt-get install hugo, on Debian 12/);
  vi.unstubAllEnvs();
});

test("the demo ends with a published page", ({ skip }) => {
  skip(cannotPublish() !== undefined, cannotPublish());
  const stdout = demo();
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect([..."123456789"].filter((number) => !new RegExp(`^${number} [A-Za-z]`, "m").test(stdout))).toEqual([]);
  const end = stdout.slice(stdout.indexOf("9 builder"));
  expect(end).toMatch(/a push with a site +202 accepted\n.* published, .*\n +the page shows +revision 1\n/);
  expect(end).toMatch(/changes layouts +202 accepted\n.* published, [\s\S]*?\n +the page shows +revision 2\n/);
  expect(end).toMatch(/README\.md +202 accepted\n.* nothing, .*only\n? *README\.md.*\n +the page shows +revision 2\n/);
});

test("the demo prints what it lacks for a page, after all layers", () => {
  symlinkSync("/bin/sh", join(folder, "sh"));
  expect(demo({ ...process.env, PATH: folder })).toContain(
    "  No page is built: git, openssl, hugo not installed: apt-get install git\n  openssl hugo\n\nLayers 1 to 8 do as declared",
  );
});
