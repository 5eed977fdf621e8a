/** What is removed, written and walked, also where another process exchanges a folder for a link meanwhile. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { below, eachName, remove, walk, within, writeWhole } from "../../../service/builder/files.ts";
import { folder, onFolder } from "../own-folder.ts";

onFolder();
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

test("what is below a folder is reached through each folder on the way, and errors name the whole path", () => {
  mkdirSync(at("a/b/c"), { recursive: true });
  writeFileSync(at("a/b/c/file"), "text");
  expect(below(folder, "a/b/c", (here) => readFileSync(`${here}/file`, "utf8"))).toBe("text");
  expect(below(at("a/b/c"), "", (here) => readFileSync(`${here}/file`, "utf8"))).toBe("text");
  expect(() => within(at("a"), (here) => readFileSync(`${here}/b/gone`))).toThrow(
    expect.objectContaining({ code: "ENOENT", path: at("a/b/gone") }),
  );
  expect(() => within(at("a"), () => readFileSync(at("gone")))).toThrow(expect.objectContaining({ path: at("gone") }));
  symlinkSync("b", at("a/link"));
  expect(() => below(folder, "a/link/c", () => "inside")).toThrow(/^ENOTDIR|^ELOOP/);
});

test("a file is written whole over the half that a killed builder left", () => {
  writeFileSync(at("a"), "former");
  writeFileSync(at("a.new"), "ha");
  writeWhole(at("a"), "whole", 0o600);
  const mode = statSync(at("a")).mode & 0o777;
  expect([readdirSync(folder), readFileSync(at("a"), "utf8"), mode]).toEqual([["a"], "whole", 0o600]);
});

test("a large folder is closed also where its reader ends early", () => {
  for (let i = 0; i < 4_000; i += 1) writeFileSync(at(`${i}`.padStart(30, "0")), "");
  const opened = () => readdirSync("/dev/fd").length;
  const before = opened();
  for (const _ of eachName(folder)) break;
  expect(opened()).toBe(before);
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

/** test/hosts/rebuild/hostile.test.ts has a program that does so while the builder copies. */
describe("a folder that becomes a link to another", () => {
  beforeEach(() => {
    for (const path of ["out/a/b", "private/b"]) mkdirSync(at(path), { recursive: true });
    for (const path of ["out/a/b/x", "out/a/y", "private/b/x", "private/b/key"]) writeFileSync(at(path), path);
  });
  const exchange = () => {
    renameSync(at("out/a"), at("away"));
    symlinkSync(at("private"), at("out/a"));
  };
  /** Walks, and exchanges the folder when it comes to this path. */
  const walked = (when: string, look?: (path: string) => void) =>
    walk(
      at("out"),
      (path) => {
        if (path === when) exchange();
        return false;
      },
      look,
    );

  test("stops the walk before it is entered", () => {
    expect(() => walked("a")).toThrow(/ENOTDIR/);
    expect(() => below(at("out"), "a/b", () => "entered")).toThrow(/ENOTDIR/);
  });

  test("would be followed without descriptors", () => {
    const platform = Object.getOwnPropertyDescriptor(process, "platform")!;
    Object.defineProperty(process, "platform", { ...platform, value: "another" });
    try {
      expect(walked("a").files).toEqual(["a/b/key", "a/b/x"]);
    } finally {
      Object.defineProperty(process, "platform", platform);
    }
  });

  test("leads nowhere after it was entered: the walk goes on in the folder itself", () => {
    const looked: string[] = [];
    expect(walked("a/b", (path) => looked.push(path)).files).toEqual(["a/b/x", "a/y"]);
    expect(looked).toEqual(["a/b/x", "a/y"]);
  });

  test("is removed as the link", () => {
    exchange();
    remove(at("out"));
    expect(walk(at("private")).files).toEqual(["b/key", "b/x"]);
  });
});
