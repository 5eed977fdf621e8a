/**
 * A folder of the output that becomes a link while the builder walks it. test/hosts/rebuild/hostile.test.ts has the
 * program that does so.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { below, remove, walk } from "../../../../service/builder/files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-exchange-"));
  for (const path of ["out/a/b", "private/b"]) mkdirSync(at(path), { recursive: true });
  for (const path of ["out/a/b/x", "out/a/y", "private/b/x", "private/b/key"]) writeFileSync(at(path), path);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const at = (path: string) => join(folder, path);

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

test("a folder that becomes a link before it is entered stops the walk", () => {
  expect(() => walked("a")).toThrow(/ENOTDIR/);
  expect(() => below(at("out"), "a/b", () => "entered")).toThrow(/ENOTDIR/);
});

test("without descriptors the walk would follow the link", () => {
  const platform = Object.getOwnPropertyDescriptor(process, "platform")!;
  Object.defineProperty(process, "platform", { ...platform, value: "another" });
  try {
    expect(walked("a").files).toEqual(["a/b/key", "a/b/x"]);
  } finally {
    Object.defineProperty(process, "platform", platform);
  }
});

test("a folder that becomes a link after it was entered leads nowhere: the walk goes on in the folder itself", () => {
  const looked: string[] = [];
  expect(walked("a/b", (path) => looked.push(path)).files).toEqual(["a/b/x", "a/y"]);
  expect(looked).toEqual(["a/b/x", "a/y"]);
});

test("a folder that became a link is removed as the link", () => {
  exchange();
  remove(at("out"));
  expect(walk(at("private")).files).toEqual(["b/key", "b/x"]);
});
