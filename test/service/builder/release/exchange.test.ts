/** A folder of the output that becomes a link while the builder walks it. exchange.slow.test.ts has the program that does so. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { below, remove, walk, within } from "../../../../service/builder/files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-exchange-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const at = (path: string) => join(folder, path);

describe("a folder that becomes a link", () => {
  const exchange = () => {
    renameSync(at("out/a"), at("away"));
    symlinkSync(at("private"), at("out/a"));
  };
  beforeEach(() => {
    for (const path of ["out/a/b", "private/b"]) mkdirSync(at(path), { recursive: true });
    for (const path of ["out/a/b/x", "out/a/y", "private/b/x", "private/b/key"]) writeFileSync(at(path), path);
  });

  test("before it is entered stops the walk", () => {
    const skip = (path: string): boolean => {
      if (path === "a") exchange();
      return false;
    };
    expect(() => walk(at("out"), skip)).toThrow(/ENOTDIR/);
    expect(() => below(at("out"), "a/b", () => "entered")).toThrow(/ENOTDIR/);
  });

  test("after it was entered leads nowhere: the walk goes on in the folder itself", () => {
    const looked: string[] = [];
    const skip = (path: string): boolean => {
      if (path === "a/b") exchange();
      return false;
    };
    const { files } = walk(at("out"), skip, (path) => looked.push(path));
    expect(files).toEqual(["a/b/x", "a/y"]);
    expect(looked).toEqual(files);
  });

  test("is removed as the link it is, or as the folder it was", () => {
    exchange();
    remove(at("out"));
    expect(walk(at("private")).files).toEqual(["b/key", "b/x"]);
  });

  test("an error names the path, and no descriptor", () => {
    const path = at("out/a/none");
    expect(() => within(at("out"), (here) => within(`${here}/a`, (a) => within(`${a}/none`, () => 0)))).toThrow(
      expect.objectContaining({ code: "ENOENT", path }),
    );
  });
});
