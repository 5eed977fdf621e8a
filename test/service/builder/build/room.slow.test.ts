/** Which former releases go where a site has no room for them. */
import { existsSync, lstatSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { measure } from "../../../../service/builder/build/disk.ts";
import { makeRoom } from "../../../../service/builder/build/room.ts";
import { releases, switchTo } from "../../../../service/builder/release/releases.ts";
import { type Bench, contextOf, onCopies } from "../harness.ts";

let site: Bench;
onCopies(3, (copy) => {
  site = copy;
});

const roomFor = async (releaseBytes: number, git = contextOf(site).git) =>
  makeRoom({ ...contextOf(site, { releaseBytes }), git });

/** The releases that stay where a share is as large as half of all but the releases, and these. */
async function staying(...fit: readonly string[]): Promise<string[]> {
  const { places } = site;
  // A cache above its own share goes first.
  rmSync(places.cache, { recursive: true, force: true });
  const others = (await measure(places.work)).bytes;
  const paths = fit.flatMap((id) =>
    [".", ...readdirSync(places.release(id), { recursive: true })].map((path) => join(places.release(id), `${path}`)),
  );
  // A file that releases share is one file on the disk.
  const blocks = new Map(
    paths.map((path) => lstatSync(path)).map(({ ino, blocks }) => [ino, Math.max(512 * blocks, 4096)]),
  );
  await roomFor((others + [...blocks.values()].reduce((sum, bytes) => sum + bytes, 0)) / 2);
  return releases(places);
}

test("all releases stay where they fit, then the oldest goes first, and the published one last", async () => {
  const [third, second, first] = releases(site.places) as [string, string, string];
  switchTo(site.places, second);
  expect(await staying(third, second, first)).toEqual([third, second, first]);
  expect(await staying(third, second)).toEqual([third, second]);
  expect(await staying()).toEqual([second]);
});

test("a clone above a release that cannot be pruned goes, and one within it stays", async () => {
  const { places } = site;
  const broken = () => Promise.reject(new Error("no room"));
  const { bytes } = await measure(join(places.clone, ".git"));
  await roomFor(bytes, broken);
  expect(existsSync(places.clone)).toBe(true);
  await roomFor(bytes - 4, broken);
  expect(existsSync(places.clone)).toBe(false);
});

test("a cache above a quarter of a release goes, and Hugo's account may write to the next one", async () => {
  const { cache } = site.places;
  writeFileSync(join(cache, "cached"), Buffer.alloc(64 << 10));
  const { bytes } = await measure(cache);
  await roomFor(4 * bytes);
  expect(readdirSync(cache)).toContain("cached");
  await roomFor(4 * bytes - 4);
  expect(readdirSync(cache)).toEqual([]);
  expect(statSync(cache).mode & 0o777).toBe(0o777);
});
