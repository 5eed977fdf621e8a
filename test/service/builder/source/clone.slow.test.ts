/** What forced pushes leave in the clone, with real packs. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { measure } from "../../../../service/builder/build/disk.ts";
import { fetchHead, pruneClone } from "../../../../service/builder/source/repository.ts";
import { contextOf, refsOf } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

const MiB = 1 << 20;
onCopies(2);
const clone = (...path: string[]) => join(site.places.clone, ...path);
const has = (commit: string) => spawnSync("git", ["-C", clone(), "cat-file", "-e", `${commit}^{commit}`]).status === 0;

const withLimit = (releaseBytes: number) => contextOf(site, { releaseBytes });

const kept = (commit: string | null) => `refs/pushgate/kept/${commit}`;
const ofReleases = () => site.status().releases.map(({ commit }) => kept(commit));
const size = async () => (await measure(clone(".git"))).bytes;
/** Fetches a commit without a parent and with this many bytes. */
async function forced(bytes: number): Promise<string> {
  site.repository.rewrite({ ...siteFiles(2), "static/large.bin": randomBytes(bytes) });
  return fetchHead(contextOf(site));
}

test("what forced pushes left goes above the size of a release; the releases' commits stay, and those of former ones go", async () => {
  const former = await forced(MiB);
  const first = site.repository.prepare({ "a.txt": "another former release" }, null);
  site.repository.point(first);
  await fetchHead(contextOf(site));
  for (const commit of [former, first]) spawnSync("git", ["-C", clone(), "update-ref", kept(commit), commit]);
  const last = await forced(1_000);
  await pruneClone(withLimit(await size()));
  expect([has(former), has(first)]).toEqual([true, true]);
  expect(refsOf(site)).toEqual([kept(former), kept(first), "refs/pushgate/head"].toSorted());

  await pruneClone(withLimit((await size()) - 1));
  expect([has(former), has(first), has(last)]).toEqual([false, false, true]);
  expect(refsOf(site)).toEqual([...ofReleases(), "refs/pushgate/head"].toSorted());
  expect(ofReleases()).toHaveLength(2);
  for (const { commit } of site.status().releases) expect(has(commit!)).toBe(true);
  expect(await size()).toBeLessThan(MiB);
});

test("what forced pushes left stays where it is less than a fifth", async () => {
  const former = await forced(MiB / 8);
  await forced(4 * MiB);
  await pruneClone(withLimit(1));
  expect(has(former)).toBe(true);
  await forced(1_000);
  await pruneClone(withLimit(1));
  expect(has(former)).toBe(false);
});
