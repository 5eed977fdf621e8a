/** What a folder takes and a disk has free, to the byte and the inode. */
import { linkSync, mkdirSync, statfsSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freeOf, isLess, measure, needRoom } from "../../../../service/builder/build/disk.ts";
import { folder, onFolder } from "../../own-folder.ts";
import { fill } from "../harness.ts";

onFolder();
const at = (name: string) => join(folder, name);
const taken = () => measure(folder).then(({ bytes }) => bytes);

test("a disk has less than it needs where bytes or inodes are missing", () => {
  const less = (bytes: number, inodes: number) => isLess({ bytes, inodes }, { bytes: 10, inodes: 10 });
  expect([less(10, 10), less(9, 10), less(10, 9)]).toEqual([false, true, true]);
});

test("a file needs its size beside the reserve, and a path that is missing needs nothing", () => {
  const { free, reserve } = freeOf(folder)!;
  const room = free.bytes - reserve.bytes;
  expect(() => needRoom(folder, room / 2)).not.toThrow();
  expect(() => needRoom(folder, room + (1 << 30))).toThrow(/^the disk is full\. .* inodes of it free\.$/);
  expect(() => needRoom(at("missing"), Number.MAX_SAFE_INTEGER)).not.toThrow();
});

test("the reserve of a file system is a twentieth of it, at most 1 GiB and 65,536 inodes", () => {
  for (const path of ["/", "/dev", "/proc", folder]) {
    const { blocks, bsize, bavail, files, ffree } = statfsSync(path);
    const { free, reserve } = freeOf(path)!;
    expect(reserve.bytes).toBe(Math.min((blocks * bsize) / 20, 1 << 30));
    expect(reserve.inodes).toBe(Math.min(files / 20, 65_536));
    expect(Math.abs(free.bytes - bavail * bsize)).toBeLessThan(1 << 30);
    if (files === 0) expect(free.inodes).toBe(Number.POSITIVE_INFINITY);
    else expect(Math.abs(free.inodes - ffree)).toBeLessThan(10_000);
  }
});

test("a folder with more folders in it than the builder's memory holds has no size", async () => {
  fill(folder, 9_000);
  expect(await taken()).toBe(Number.POSITIVE_INFINITY);
});

test("a folder that was removed meanwhile takes nothing, and counts as no closed folder", async () => {
  writeFileSync(at("file"), "x");
  for (const gone of ["missing", "file", "file/below"])
    expect(await measure(at(gone))).toEqual({ bytes: 0, closed: new Set() });
  // No state of the disk explains this error of Node's.
  await expect(measure("a\0b")).rejects.toThrow(/null bytes/);
});

test("a second name takes nothing; a link, an empty, a sparse and an unreadable name take a block each", async () => {
  mkdirSync(at("in"));
  writeFileSync(at("in/one"), Buffer.alloc(100_000, 1));
  const one = await taken();
  for (let i = 0; i < 3; i += 1) linkSync(at("in/one"), at(`in/${i}`));
  expect(await taken()).toBe(one);
  symlinkSync(at("in/one"), at("link"));
  writeFileSync(at("empty"), "");
  writeFileSync(at("sparse"), "");
  truncateSync(at("sparse"), 1 << 30);
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0xfe])]), "");
  expect(await taken()).toBe(one + 4 * 4096);
});

test("a walk ends above a sum", async () => {
  for (let i = 0; i < 20; i += 1) writeFileSync(at(`${i}`), "");
  expect(await taken()).toBe(20 * 4096);
  expect((await measure(folder, 10 * 4096)).bytes).toBe(11 * 4096);
  expect((await measure(folder, 0)).bytes).toBe(4096);
});

test("a walk lets other work go on, and ends where that work ends it", async () => {
  for (let i = 0; i < 3_000; i += 1) writeFileSync(at(`${i}`), "");
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  const whole = await measure(folder);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(0);
  const { bytes } = await measure(folder, Number.POSITIVE_INFINITY, () => false);
  expect(bytes).toBeLessThan(whole.bytes);
});
