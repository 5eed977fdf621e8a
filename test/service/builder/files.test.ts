/** What is removed and walked, where no other process interferes. exchange.test.ts has one that does. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { remove, walk } from "../../../service/builder/files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-files-"));
});
afterEach(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);

test("a folder that may not be written into is removed with all below it, and a missing one is none", () => {
  mkdirSync(at("a/b"), { recursive: true });
  writeFileSync(at("a/b/c"), "");
  chmodSync(at("a/b"), 0o500);
  chmodSync(at("a"), 0o000);
  remove(at("a"));
  remove(at("a"));
  expect(readdirSync(folder)).toEqual([]);
});

test("a walk is in the order of names, and leaves out what it is to skip", () => {
  for (const name of ["c", "a", "b"]) writeFileSync(at(name), "");
  mkdirSync(at("d/e"), { recursive: true });
  writeFileSync(at("d/e/f"), "");
  symlinkSync("nowhere", at("g"));
  spawnSync("mkfifo", [at("h")]);
  const seen: string[] = [];
  const found = walk(
    folder,
    (path) => path === "b",
    (path) => void seen.push(path),
  );
  expect(found).toEqual({ folders: ["d", "d/e"], files: ["a", "c", "d/e/f"], links: ["g"], others: ["h"] });
  expect(seen).toEqual(found.files);
});
