/** Which folder may import what, and how many files lie at the roots. ARCHITECTURE.md states the rules. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;

test("infra and service import nothing from test, and each folder only what its rule allows", () => {
  const grep = (pattern: string, ...paths: string[]) => {
    try {
      return execFileSync("grep", ["-rlE", pattern, ...paths, "--include=*.ts"], { cwd: root, encoding: "utf8" })
        .trim()
        .split("\n")
        .sort();
    } catch {
      return [];
    }
  };
  expect(grep('from "(\\.\\./)+test/', "infra", "service")).toEqual([]);
  expect(grep("@pulumi/command", "infra")).toEqual(["infra/apply/ship.ts"]);
  // A cause names the unit to start.
  expect(grep('from "\\.\\./(host|edge|cli)/', "infra/apply", "infra/trace")).toEqual(["infra/trace/causes.ts"]);
  expect(grep('from "(\\.\\./)+host/', "infra/edge")).toEqual([]);
  expect(grep('from "(\\.\\./)+edge/', "infra/host")).toEqual([]);
  expect(grep("@pulumi/", "infra/host")).toEqual(["infra/host/declare.ts"]);
  expect(grep("allConfig|pulumi\\.Config", "infra")).toEqual(["infra/config/settings.ts"]);
  expect(grep("process\\.env", "infra", "service")).toEqual([
    "infra/cli/main.ts",
    "infra/cli/webhook/webhooks.ts",
    "infra/config/settings.ts",
    "service/settings.ts",
  ]);
});

test("the roots of infra and test hold few files, so that a reader sees the folders", () => {
  const files = (folder: string) =>
    readdirSync(`${root}${folder}`, { withFileTypes: true }).filter((entry) => entry.isFile()).length;
  expect(files("infra")).toBeLessThanOrEqual(4);
  expect(files("test")).toBeLessThanOrEqual(10);
});

test("the receiver is read in fifteen minutes: at most 8 files and 500 lines", () => {
  const files = readdirSync(`${root}service/receiver`);
  const lines = files.flatMap((file) => readFileSync(`${root}service/receiver/${file}`, "utf8").trimEnd().split("\n"));
  expect(files.length).toBeLessThanOrEqual(8);
  expect(lines.length).toBeLessThanOrEqual(500);
});
