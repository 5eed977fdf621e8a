/** `npm run release` in a repository of its own. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";

const script = fileURLToPath(new URL("../../.ci/release.ts", import.meta.url));
let folder: string;
const git = (...words: string[]) => execFileSync("git", words, { cwd: folder, encoding: "utf8" }).trim();
const release = (...words: string[]) =>
  spawnSync(process.execPath, [script, ...words], { cwd: folder, encoding: "utf8" });
const write = (file: string, text: string) => writeFileSync(join(folder, file), text);
const read = (file: string) => readFileSync(join(folder, file), "utf8");

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-release-"));
  git("init", "-q", "-b", "main");
  git("config", "user.name", "A. Maintainer");
  git("config", "user.email", "maintainer@example.org");
  write("package.json", '{ "name": "pushgate", "version": "0.1.0" }\n');
  write("package-lock.json", '{ "version": "0.1.0", "packages": { "": { "version": "0.1.0" } } }\n');
  write("CHANGELOG.md", "# Changelog\n\nHow to read it.\n\n## Unreleased\n\n- **First.**\n- # Second.\n");
  git("add", ".");
  git("commit", "-qm", "all");
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a release has its version, its date, and its section as the tag's notes", () => {
  // The first release has the version that package.json was written with.
  expect(release("0.1.0")).toMatchObject({ status: 0, stderr: "" });
  expect(git("status", "--porcelain")).toBe("");
  expect(JSON.parse(read("package.json")).version).toBe("0.1.0");
  const date = new Date().toISOString().slice(0, 10);
  expect(read("CHANGELOG.md")).toContain(`\n## Unreleased\n\n## 0.1.0 (${date})\n\n- **First.**\n`);
  expect(git("tag", "--list", "--format=%(contents)", "v0.1.0")).toBe("pushgate 0.1.0\n\n- **First.**\n- # Second.");
  write("CHANGELOG.md", read("CHANGELOG.md").replace("## Unreleased\n", "## Unreleased\n\n- Third.\n"));
  git("commit", "-qam", "more");
  expect(release("0.10.0").status).toBe(0);
  expect(JSON.parse(read("package.json")).version).toBe("0.10.0");
  const lock = { version: "0.10.0", packages: { "": { version: "0.10.0" } } };
  expect(JSON.parse(read("package-lock.json"))).toEqual(lock);
  expect(git("tag", "--list", "--format=%(contents)", "v0.10.0")).toBe("pushgate 0.10.0\n\n- Third.");
  expect(release("0.9.0").stderr).toContain("0.9.0 is not later than v0.10.0");
});

test("all that is wrong is reported at once, and nothing changes", () => {
  write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- Old.\n");
  git("switch", "-qc", "other");
  const before = [read("CHANGELOG.md"), git("rev-parse", "HEAD")];
  const { status, stderr } = release("v0.2");
  expect(status).toBe(1);
  expect(stderr.split("\n").map((line) => line.replace(/\. .*/, ""))).toEqual([
    'release: "v0.2" is no version',
    "release: this is not main",
    "release: files are changed and not committed",
    'release: CHANGELOG.md has nothing below "## Unreleased"',
    "",
  ]);
  expect([read("CHANGELOG.md"), git("rev-parse", "HEAD")]).toEqual(before);
  expect(git("tag")).toBe("");
});
