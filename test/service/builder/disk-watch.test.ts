/** When the disk's watch ends a build. bounds.test.ts and disk-full.test.ts have builds that it ends. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { measure } from "../../../service/builder/disk.ts";
import { watchDisk } from "../../../service/builder/disk-watch.ts";
import type { Places } from "../../../service/builder/places.ts";
import { placesIn } from "./harness.ts";

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

test("a walk lets other work go on, and ends where that work ends it", async () => {
  for (let i = 0; i < 3_000; i += 1) writeFileSync(join(places.work, `${i}`), "");
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 1);
  const whole = await measure(places.work);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(0);
  const { bytes } = await measure(places.work, Number.POSITIVE_INFINITY, () => false);
  expect(bytes).toBeLessThan(whole.bytes);
});
