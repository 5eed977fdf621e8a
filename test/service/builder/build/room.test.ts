/** What goes where a site has no room for it: former releases, caches, and with real packs what forced pushes left. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { measure } from "../../../../service/builder/build/disk.ts";
import { haveRoom, makeRoom, makeRoomAfter } from "../../../../service/builder/build/room.ts";
import { releases, switchTo } from "../../../../service/builder/release/releases.ts";
import { fetchHead, pruneClone } from "../../../../service/builder/source/repository.ts";
import { contextOf, refsOf } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

const MiB = 1 << 20;
onCopies(3);

const roomFor = async (releaseBytes: number, git = contextOf(site).git) =>
  makeRoom({ ...contextOf(site, { releaseBytes }), git });

/** The releases that stay where a share is as large as half of what is there, less these bytes. */
async function staying(less: number): Promise<string[]> {
  const { places } = site;
  // A cache above its own share goes first.
  rmSync(places.cache, { recursive: true, force: true });
  await roomFor(((await measure(places.work)).bytes + (await measure(places.releases)).bytes - less) / 2);
  return releases(places);
}

test("all releases stay where they fit, then the oldest goes first, and the published one last", async () => {
  const [third, second, first] = releases(site.places) as [string, string, string];
  switchTo(site.places, second);
  expect(await staying(0)).toEqual([third, second, first]);
  expect(await staying(2)).toEqual([third, second]);
  expect(await staying(2)).toEqual([second]);
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

test("what Git LFS brought goes above a quarter of a release, where the checkout is complete", async () => {
  const { lfs, checkedOut } = site.places;
  const stays = async (shares: number, less = 4) => {
    mkdirSync(lfs, { recursive: true });
    writeFileSync(join(lfs, "object"), Buffer.alloc(256 << 10));
    await roomFor(shares * (await measure(lfs)).bytes - less);
    return existsSync(lfs);
  };
  expect([await stays(4, 0), await stays(4)]).toEqual([true, false]);
  rmSync(checkedOut);
  expect([await stays(4), await stays(1)]).toEqual([true, false]);
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

test("a run measures nothing where the one before it has made room for as large a release", async () => {
  const { cache } = site.places;
  const fill = () => writeFileSync(join(cache, "cached"), Buffer.alloc(64 << 10));
  const of = (releaseBytes: number) => contextOf(site, { releaseBytes });
  const stays = async (releaseBytes: number) => {
    fill();
    await haveRoom(of(releaseBytes));
    return existsSync(join(cache, "cached"));
  };
  const most = 128 << 10;
  await makeRoomAfter(of(most));
  expect(await stays(most)).toBe(true);
  // The next run was killed, or could make no room.
  expect(await stays(most)).toBe(false);
  await makeRoomAfter(of(2 * most));
  expect(await stays(most)).toBe(false);
});

describe("what forced pushes left", () => {
  const git = (...args: string[]) => spawnSync("git", ["-C", site.places.clone, ...args]).status === 0;
  const has = (commit: string) => git("cat-file", "-e", `${commit}^{commit}`);
  const kept = (commit: string | null) => `refs/pushgate/kept/${commit}`;
  const ofReleases = () => site.status().releases.map(({ commit }) => commit);
  const size = async () => (await measure(join(site.places.clone, ".git"))).bytes;
  const prune = (releaseBytes: number) => pruneClone(contextOf(site, { releaseBytes }));
  /** Fetches a commit without a parent and with this many bytes. */
  const forced = (bytes: number): Promise<string> => {
    site.repository.rewrite({ ...siteFiles(3), "static/large.bin": randomBytes(bytes) });
    return fetchHead(contextOf(site));
  };

  test("goes above the size of a release; the releases' commits stay, and those of former ones go", async () => {
    const former = [await forced(MiB), await forced(1_000)];
    for (const commit of former) git("update-ref", kept(commit), commit);
    const last = await forced(1_000);
    await prune(await size());
    expect(former.map(has)).toEqual([true, true]);
    expect(refsOf(site)).toEqual([...former.map(kept), "refs/pushgate/head"].toSorted());

    await prune((await size()) - 1);
    expect([...former, last].map(has)).toEqual([false, false, true]);
    expect(refsOf(site)).toEqual([...ofReleases().map(kept), "refs/pushgate/head"].toSorted());
    expect(ofReleases().map((commit) => has(commit!))).toEqual([true, true, true]);
    expect(await size()).toBeLessThan(MiB);
  });

  test("stays where it is less than a fifth", async () => {
    const former = await forced(MiB / 8);
    await forced(4 * MiB);
    await prune(1);
    expect(has(former)).toBe(true);
    await forced(1_000);
    await prune(1);
    expect(has(former)).toBe(false);
  });
});
