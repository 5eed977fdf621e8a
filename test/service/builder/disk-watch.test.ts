/** When the disk's watch ends a build. bounds.test.ts and disk-full.test.ts have builds that it ends. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchDisk } from "../../../service/builder/disk-watch.ts";
import type { Places } from "../../../service/builder/places.ts";
import { cannotMount, mountTmpfs, placesIn, unmount } from "./harness.ts";

let folder: string;
let places: Places;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-watch-"));
  places = placesIn(folder);
});
afterEach(() => rmSync(folder, { recursive: true }));

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
  watchDisk({ releaseBytes }, places, ({ message }) => ends.push(message))();
  await sleep(500);
  expect(ends).toEqual([]);
});

test("a build is ended once where the disk comes below its reserve, and not before", async ({ skip }) => {
  skip(!mountTmpfs(places.site, "size=8m,nr_inodes=1000"), cannotMount);
  try {
    placesIn(folder);
    const ends: string[] = [];
    const unwatch = watchDisk({ releaseBytes: 1 << 30 }, places, ({ message }) => ends.push(message));
    write(4 << 20);
    await sleep(300);
    expect(ends).toEqual([]);
    write((8 << 20) - (300 << 10));
    await vi.waitUntil(() => ends.length > 0, { timeout: 5_000 });
    await sleep(200);
    unwatch();
    expect(ends).toEqual([
      `the disk is full. Free space on the file system of ${places.site}, or make the site smaller: a build leaves ` +
        "0.4 MiB and 50 inodes of it free.",
    ]);
  } finally {
    unmount(places.site);
  }
});
