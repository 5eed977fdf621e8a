/** Which former releases go where a site has no room for them. bounds.slow.test.ts has a build that needs the room. */
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { measure } from "../../../../service/builder/build/disk.ts";
import { makeRoom } from "../../../../service/builder/build/room.ts";
import { currentRelease, releases, sizeOf, switchTo } from "../../../../service/builder/release/releases.ts";
import { type Bench, contextOf, onCopies, placesIn } from "../harness.ts";

let site: Bench;
onCopies(3, (copy) => {
  site = copy;
});

/** The releases that stay where a share is as large as half of all but the releases, and these. */
async function staying(...fit: readonly string[]): Promise<string[]> {
  const { places } = site;
  // A cache above its own share goes first.
  rmSync(places.cache, { recursive: true, force: true });
  const others = (await measure(places.work)).bytes;
  await withReleasesOf((others + sizeOf(places, fit)) / 2);
  return releases(places);
}

async function withReleasesOf(releaseBytes: number, git = contextOf(site).git): Promise<void> {
  await makeRoom({ ...contextOf(site, { releaseBytes }), git });
}

test("all stay where they fit, then the oldest goes first, and the published one last", async () => {
  const [third, second, first] = releases(site.places) as [string, string, string];
  expect(await staying(third, second, first)).toEqual([third, second, first]);
  expect(await staying(third, second)).toEqual([third, second]);
  expect(await staying()).toEqual([third]);
});

test("the published one stays also where it is the oldest", async () => {
  const [third, , first] = releases(site.places) as [string, string, string];
  switchTo(site.places, first);
  expect(await staying(third, first)).toEqual([third, first]);
  expect(await staying()).toEqual([first]);
  expect(currentRelease(site.places)).toBe(first);
});

test("a clone above a release that cannot be pruned goes, and one within it stays", async () => {
  const { places } = site;
  const broken = () => Promise.reject(new Error("no room"));
  const { bytes } = await measure(join(places.clone, ".git"));
  await withReleasesOf(bytes, broken);
  expect(existsSync(places.clone)).toBe(true);
  await withReleasesOf(bytes - 4, broken);
  expect(existsSync(places.clone)).toBe(false);
});

test("a cache above a quarter of a release goes, and Hugo's account may write to the next one", async () => {
  const { places } = site;
  const write = (bytes: number) => writeFileSync(join(places.cache, "cached"), Buffer.alloc(bytes));
  rmSync(places.cache, { recursive: true, force: true });
  const { cache } = placesIn(site.folder);
  expect(statSync(cache).mode & 0o777).toBe(0o777);
  write(64 << 10);
  const { bytes } = await measure(cache);
  await withReleasesOf(4 * bytes);
  expect(readdirSync(cache)).toEqual(["cached"]);
  await withReleasesOf(4 * bytes - 4);
  expect(readdirSync(cache)).toEqual([]);
  expect(statSync(cache).mode & 0o777).toBe(0o777);
});
