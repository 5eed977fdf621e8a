/** `npm run demo`: one row for each layer, each as declared, with a page, and without the tools for one. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { cannotPublish } from "./publish.ts";

const demo = (args: string[] = [], env = process.env) =>
  spawnSync(process.execPath, [new URL("../demo.ts", import.meta.url).pathname, ...args], { encoding: "utf8", env });

afterEach(() => {
  vi.unstubAllEnvs();
});

test("cannotPublish names each missing program with the command that installs it", () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-path-"));
  const program = (name: string, text: string) => writeFileSync(join(folder, name), text, { mode: 0o755 });
  symlinkSync("/bin/sh", join(folder, "sh"));
  vi.stubEnv("PATH", folder);
  expect(cannotPublish()).toBe("git and openssl and hugo not installed: apt-get install git openssl hugo");
  for (const name of ["git", "openssl"]) program(name, "#!/bin/sh\n");
  expect(cannotPublish()).toBe("hugo not installed: apt-get install hugo");
  program("hugo", "#!/bin/sh\necho hugo v0.92.2+extended linux/amd64\n");
  expect(cannotPublish()).toMatch(/^Hugo is 0\.92, older than 0\.111: apt-get install hugo, on Debian 12/);
  rmSync(folder, { recursive: true });
});

test("demo --json prints one array with a row for each of layers 2 to 8, all as declared", () => {
  const { status, stdout, stderr } = demo(["--json"]);
  expect(status, stderr).toBe(0);
  const rows = JSON.parse(stdout) as Record<string, unknown>[];
  expect(rows.map(({ layer }) => String(layer).slice(0, 1))).toEqual(["2", "3", "4", "5", "6", "7", "8"]);
  for (const row of rows) {
    expect(Object.keys(row)).toEqual(["layer", "declaredIn", "attack", "how", "with", "without"]);
    expect(row).toMatchObject({ how: expect.stringMatching(/^(real|evaluated)$/) });
    expect(row.with).not.toEqual(row.without);
  }
});

test("the demo ends with a published page", ({ skip }) => {
  skip(cannotPublish() !== undefined, cannotPublish());
  const { status, stdout, stderr } = demo();
  expect(status, stderr).toBe(0);
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect([..."123456789"].filter((number) => !new RegExp(`^${number} [A-Za-z]`, "m").test(stdout))).toEqual([]);
  const end = stdout.slice(stdout.indexOf("9 builder"));
  expect(end).toMatch(/a push with a site +202 accepted\n.* published, .*\n +the page shows +revision 1\n/);
  expect(end).toMatch(/changes layouts +202 accepted\n.* published, [\s\S]*?\n +the page shows +revision 2\n/);
  expect(end).toMatch(/README\.md +202 accepted\n.* nothing, .*only\n? *README\.md.*\n +the page shows +revision 2\n/);
});

test("the demo prints what it lacks for a page, after all layers", () => {
  const { status, stdout, stderr } = demo([], { ...process.env, PATH: "/nonexistent" });
  expect(status, stderr).toBe(0);
  expect(stdout).toContain(
    "  No page is built: git and openssl and hugo not installed: apt-get install git\n  openssl hugo\n\nLayers 1 to 8 do as declared",
  );
});
