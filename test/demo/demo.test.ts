/** `npm run demo -- --json`: one row for each layer, each as declared; and what a page needs. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { cannotPublish } from "./publish.ts";

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
  const { status, stdout, stderr } = spawnSync(process.execPath, ["test/demo.ts", "--json"], { encoding: "utf8" });
  expect(status, stderr).toBe(0);
  const rows = JSON.parse(stdout) as Record<string, unknown>[];
  expect(rows.map(({ layer }) => String(layer).slice(0, 1))).toEqual(["2", "3", "4", "5", "6", "7", "8"]);
  for (const row of rows) {
    expect(Object.keys(row)).toEqual(["layer", "declaredIn", "attack", "how", "with", "without"]);
    expect(row).toMatchObject({ how: expect.stringMatching(/^(real|evaluated)$/) });
    expect(row.with).not.toEqual(row.without);
  }
});
