/** What a folder takes and a disk has free, to the byte and the inode. disk-full.test.ts has builds on a full disk. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { freeOf, isLess, measure, needRoom, onDisk } from "../../../service/builder/disk.ts";
import { watchDisk } from "../../../service/builder/disk-watch.ts";
import { remove, walk } from "../../../service/builder/files.ts";
import { placesIn } from "./harness.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-disk-"));
});
afterEach(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);

test("a file takes whole blocks, and an empty one a block", () => {
  expect([0, 1, 4096, 4097].map(onDisk)).toEqual([4096, 4096, 4096, 8192]);
});

test.each([
  [10, 10, false],
  [9, 10, true],
  [10, 9, true],
  [11, 11, false],
])("with %d bytes and %d inodes free, 10 of each are missing: %s", (bytes, inodes, less) => {
  expect(isLess({ bytes, inodes }, { bytes: 10, inodes: 10 })).toBe(less);
});

test("a build leaves a twentieth of a disk free, 1 GiB at most", () => {
  const { blocks, bsize, files } = statfsSync(folder);
  const { reserve } = freeOf(folder)!;
  expect(reserve.bytes).toBe(Math.min((blocks * bsize) / 20, 1 << 30));
  expect(reserve.inodes).toBe(Math.min(files / 20, 65_536));
  expect(freeOf(at("missing"))).toBeUndefined();
});

test("a file needs its size beside the reserve, and a path that is missing needs nothing", () => {
  const { free, reserve } = freeOf(folder)!;
  const room = free.bytes - reserve.bytes;
  expect(() => needRoom(folder, room / 2)).not.toThrow();
  expect(() => needRoom(folder, room + (1 << 30))).toThrow(
    /^the disk is full\. .* a build leaves .* inodes of it free\.$/,
  );
  expect(() => needRoom(at("missing"), Number.MAX_SAFE_INTEGER)).not.toThrow();
});

describe("the size of a folder", () => {
  test("counts a file of several names once, a folder and an empty file a block, and no link's target", async () => {
    mkdirSync(at("in"));
    writeFileSync(at("in/one"), Buffer.alloc(100_000, 1));
    const [one] = [(await measure(folder)).bytes];
    linkSync(at("in/one"), at("in/two"));
    expect((await measure(folder)).bytes).toBe(one);
    symlinkSync(at("in/one"), at("link"));
    writeFileSync(at("empty"), "");
    expect((await measure(folder)).bytes).toBe(one + 2 * 4096);
  });

  test("is not looked at further once it is above the limit", async () => {
    for (let i = 0; i < 50; i += 1) writeFileSync(at(`${i}`), "");
    expect((await measure(folder, 10 * 4096)).bytes).toBe(11 * 4096);
    expect((await measure(folder, 0)).bytes).toBe(4096);
  });

  test("of a file, and of no folder, is nothing, and neither is closed", async () => {
    writeFileSync(at("file"), "");
    expect(await measure(at("file"))).toEqual({ bytes: 0, closed: new Set() });
    expect(await measure(at("missing"))).toEqual({ bytes: 0, closed: new Set() });
  });
});

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

test("the watch ends a build once where the disk comes below its reserve, and not before", async ({ skip }) => {
  mkdirSync(at("site"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=8m,nr_inodes=1000", "tmpfs", at("site")]).status === 0;
  skip(!mounted, "only root with CAP_SYS_ADMIN can mount");
  try {
    const places = placesIn(folder);
    const ends: string[] = [];
    const unwatch = watchDisk({ releaseBytes: 1 << 30 }, places, ({ message }) => ends.push(message));
    writeFileSync(join(places.work, "some"), Buffer.alloc(4 << 20));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(ends).toEqual([]);
    writeFileSync(join(places.work, "most"), Buffer.alloc((4 << 20) - (300 << 10)));
    await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    unwatch();
    expect(ends).toEqual([
      `the disk is full. Free space on the file system of ${places.site}, or make the site smaller: a build leaves ` +
        "0.4 MiB and 50 inodes of it free.",
    ]);
  } finally {
    spawnSync("umount", [at("site")]);
  }
});
