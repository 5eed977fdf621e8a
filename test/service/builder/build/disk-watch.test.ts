/** When the disk's watch ends a build. bounds.slow.test.ts has git that it ends, build.test.ts a build. */
import { spawnSync } from "node:child_process";
import { mkdirSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, test, vi } from "vitest";
import { watchDisk } from "../../../../service/builder/build/disk-watch.ts";
import { makePlaces } from "../../../../service/builder/places.ts";
import { moduleWithout } from "../../module-without.ts";
import { cannotMount, mountTmpfs, nest, timers, unmount } from "../harness.ts";
import { onPlaces, places } from "../scene.ts";

let ends: string[];
onPlaces();
beforeEach(() => {
  ends = [];
});

/** Three times this is what the site may take. */
const releaseBytes = 100_000;
const write = (bytes: number) => writeFileSync(join(places.work, "written"), Buffer.alloc(bytes));
const watch = (most = releaseBytes, of = places, by = watchDisk) =>
  by({ releaseBytes: most }, of, ({ message }) => ends.push(message));
/** Longer than from one walk to the next. */
const walked = () => sleep(350);
const ended = () => vi.waitUntil(() => ends.length > 0, { timeout: 20_000 });

test("a build is ended once where the site takes more than its shares with all its releases, and never without the check", async () => {
  const release = "000002-aaaaaaaaaaaa";
  mkdirSync(places.release(release));
  writeFileSync(join(places.release(release), "index.html"), Buffer.alloc(100_000));
  write(50_000);
  const unwatch = watch();
  await walked();
  expect(ends).toEqual([]);
  write(150_000);
  await walked();
  expect(ends).toEqual([]);
  const check = ["found.bytes > most2) over", "false) over"] as const;
  const module = "builder/build/disk-watch.ts";
  const { watchDisk: open } = await moduleWithout<{ watchDisk: typeof watchDisk }>(module, places.site, [check]);
  const unwatchOpen = watch(releaseBytes, places, open);
  write(210_000);
  await walked();
  unwatchOpen();
  await ended();
  unwatch();
  expect(ends).toEqual([expect.stringMatching(/^the site wrote more than it may: .* more than 0\.3 MiB/)]);
});

test("nothing is ended after the end of the watch", async () => {
  write(400_000);
  const before = timers();
  const unwatch = watch();
  expect(timers()).toBe(before + 1);
  unwatch();
  expect(timers()).toBe(before);
  await walked();
  expect(ends).toEqual([]);
});

test.each(["out", "cache"] as const)("a closed folder of %s ends the build, and no other does", async (name) => {
  const other = join(places.work, "other");
  for (const folder of [places[name], other]) mkdirSync(folder, { recursive: true });
  nest(other);
  const unwatchOther = watch(1 << 30);
  await sleep(700);
  unwatchOther();
  expect(ends).toEqual([]);
  const began = performance.now();
  const unwatch = watch(1 << 30);
  nest(places[name]);
  await ended();
  // Not at the first walk, as a program may make a folder and open it after that.
  expect(performance.now() - began).toBeGreaterThan(390);
  await walked();
  unwatch();
  spawnSync("rm", ["-rf", places.work]);
  expect(ends).toEqual([expect.stringMatching(/^the build closed the folder .*, so its size is unknown\. Leave/)]);
  expect(ends[0]).toContain(`the folder ${places[name]}/d`.slice(0, 150));
});

test("folders that cannot be measured end the build", async () => {
  // A path with NUL is an error of Node's, which no state of the disk explains.
  const unwatch = watch(releaseBytes, { ...places, work: "\0" });
  await ended();
  unwatch();
  expect(ends).toEqual([expect.stringMatching(/^the folders of the site cannot be measured: ./)]);
});

const KiB = 1 << 10;
const disk = 8 << 20;
/** Makes files until so many inodes are left. */
function leave(inodes: number): void {
  mkdirSync(join(places.work, "many"), { recursive: true });
  for (let i = statfsSync(places.site).ffree; i > inodes; i--) writeFileSync(join(places.work, "many", `${i}`), "");
}

test.for<[string, () => unknown, () => unknown, () => unknown, string]>([
  ["bytes", () => {}, () => write(disk / 2), () => write(disk - 300 * KiB), "0.4 MiB and 50 inodes"],
  ["inodes", () => {}, () => leave(60), () => leave(40), "0.4 MiB and 50 inodes"],
  [
    "half of the bytes that were left below the reserve",
    () => write(disk - 200 * KiB),
    () => {},
    () => write(disk - 60 * KiB),
    "0.1 MiB and 50 inodes",
  ],
  ["half of the inodes that were left", () => leave(30), () => {}, () => leave(10), "0.4 MiB and 15 inodes"],
])("a build is ended once at the reserve of the disk: %s", async ([_, before, within, beyond, reserve], { skip }) => {
  skip(!mountTmpfs(places.site, "size=8m,nr_inodes=1000"), cannotMount);
  try {
    makePlaces(places);
    before();
    const unwatch = watch(1 << 30);
    within();
    await sleep(200);
    expect(ends).toEqual([]);
    beyond();
    await ended();
    await sleep(200);
    unwatch();
    expect(ends).toEqual([
      expect.stringContaining(`${places.site}, or make the site smaller: a build leaves ${reserve}`),
    ]);
  } finally {
    unmount(places.site);
  }
});
