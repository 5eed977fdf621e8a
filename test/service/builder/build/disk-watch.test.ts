/** When the disk's watch ends a build. bounds.slow.test.ts and disk-full.slow.test.ts have builds that it ends. */
import { spawnSync } from "node:child_process";
import { mkdirSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { watchDisk } from "../../../../service/builder/build/disk-watch.ts";
import { makePlaces, type Places } from "../../../../service/builder/places.ts";
import { cannotMount, mountTmpfs, nest, onPlaces, timers, unmount } from "../harness.ts";

let places: Places;
onPlaces((own) => {
  places = own;
});

/** Three times this is what the site may take beside its releases. */
const releaseBytes = 100_000;
const write = (bytes: number) => writeFileSync(join(places.work, "written"), Buffer.alloc(bytes));

test("a site that takes more than its shares is ended once", async () => {
  const ends: string[] = [];
  write(250_000);
  const unwatch = watchDisk({ releaseBytes }, places, ({ message }) => ends.push(message));
  await sleep(500);
  expect(ends).toEqual([]);
  write(310_000);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  await sleep(500);
  unwatch();
  expect(ends).toEqual([expect.stringMatching(/^the site wrote more than it may: .* more than 0\.3 MiB/)]);
});

test("nothing is ended after the end of the watch", async () => {
  const ends: string[] = [];
  write(400_000);
  const before = timers();
  const unwatch = watchDisk({ releaseBytes }, places, ({ message }) => ends.push(message));
  expect(timers()).toBe(before + 1);
  unwatch();
  expect(timers()).toBe(before);
  await sleep(500);
  expect(ends).toEqual([]);
});

test("what the releases take is not left for a build", async () => {
  const release = "000002-aaaaaaaaaaaa";
  mkdirSync(places.release(release), { recursive: true });
  const files = [["index.html", 200_000, "0".repeat(64)]];
  writeFileSync(places.manifest(release), JSON.stringify({ release, files, links: [] }));
  const ends: string[] = [];
  write(50_000);
  const unwatch = watchDisk({ releaseBytes }, places, ({ message }) => ends.push(message));
  await sleep(500);
  expect(ends).toEqual([]);
  write(120_000);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  unwatch();
  expect(ends).toEqual([
    "the site wrote more than it may: clone, checkout, cache, the build's output and the releases take more than 0.3 MiB on " +
      "the disk, 3 times hooks[].site.limits.releaseMiB. Make the site smaller, or raise it.",
  ]);
});

const unnest = () => void spawnSync("rm", ["-rf", places.work]);

test.each(["out", "cache"] as const)("a folder of Hugo's that cannot be read ends the build: %s", async (name) => {
  const ends: string[] = [];
  mkdirSync(places[name], { recursive: true });
  const began = performance.now();
  const unwatch = watchDisk({ releaseBytes: 1 << 30 }, places, ({ message }) => ends.push(message));
  nest(places[name]);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  // Not at the first walk, as a program may make a folder and open it after that.
  expect(performance.now() - began).toBeGreaterThan(390);
  await sleep(500);
  unwatch();
  unnest();
  expect(ends).toEqual([expect.stringMatching(/^the build closed the folder .*, so that its size is unknown\. Leave/)]);
  expect(ends[0]).toContain(`the folder ${places[name]}/d`.slice(0, 150));
});

test("a folder that cannot be read and is not Hugo's ends no build", async () => {
  const ends: string[] = [];
  const unwatch = watchDisk({ releaseBytes: 1 << 30 }, places, ({ message }) => ends.push(message));
  mkdirSync(join(places.work, "other"));
  nest(join(places.work, "other"));
  await sleep(800);
  unnest();
  unwatch();
  expect(ends).toEqual([]);
});

test("folders that cannot be measured end the build", async () => {
  // A path with NUL is an error of Node's, which no state of the disk explains.
  const ends: string[] = [];
  const unwatch = watchDisk({ releaseBytes }, { ...places, manifests: "\0" }, ({ message }) => ends.push(message));
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  unwatch();
  expect(ends).toEqual([expect.stringMatching(/^the folders of the site cannot be measured: ./)]);
});

/** Of 8 MiB and 1,000 inodes. */
const onSmallDisk = (title: string, use: (ends: string[], watch: () => () => void) => Promise<void>) =>
  test(title, async ({ skip }) => {
    skip(!mountTmpfs(places.site, "size=8m,nr_inodes=1000"), cannotMount);
    try {
      makePlaces(places);
      const ends: string[] = [];
      await use(ends, () => watchDisk({ releaseBytes: 1 << 30 }, places, ({ message }) => ends.push(message)));
    } finally {
      unmount(places.site);
    }
  });
const full = (mebibytes: string, inodes: number) =>
  `the disk is full. Free space on the file system of ${places.site}, or make the site smaller: a build leaves ` +
  `${mebibytes} MiB and ${inodes} inodes of it free.`;
const KiB = 1 << 10;

onSmallDisk("a build is ended once where the disk comes below its reserve, and not before", async (ends, watch) => {
  const unwatch = watch();
  write(4 << 20);
  await sleep(300);
  expect(ends).toEqual([]);
  write((8 << 20) - 300 * KiB);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  await sleep(200);
  unwatch();
  expect(ends).toEqual([full("0.4", 50)]);
});

onSmallDisk("a build is ended where the disk has too few inodes left", async (ends, watch) => {
  const unwatch = watch();
  mkdirSync(join(places.work, "many"));
  for (let i = 0; i < 900; i += 1) writeFileSync(join(places.work, "many", `${i}`), "");
  await sleep(300);
  expect(ends).toEqual([]);
  for (let i = 0; i < 70; i += 1) writeFileSync(join(places.work, "many", `more-${i}`), "");
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  unwatch();
  expect(ends).toEqual([full("0.4", 50)]);
});

onSmallDisk("on a disk that is below its reserve already, a build may take half of the rest", async (ends, watch) => {
  write((8 << 20) - 200 * KiB);
  const unwatch = watch();
  await sleep(300);
  expect(ends).toEqual([]);
  write((8 << 20) - 60 * KiB);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  unwatch();
  expect(ends).toEqual([full("0.1", 50)]);
});

onSmallDisk("with fewer inodes left than the reserve, a build may take half of the rest", async (ends, watch) => {
  mkdirSync(join(places.work, "many"));
  const leave = (inodes: number) => {
    for (let i = statfsSync(places.site).ffree; i > inodes; i--) writeFileSync(join(places.work, "many", `${i}`), "");
  };
  leave(30);
  const unwatch = watch();
  await sleep(300);
  expect(ends).toEqual([]);
  leave(10);
  await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
  unwatch();
  expect(ends).toEqual([full("0.4", 15)]);
});
