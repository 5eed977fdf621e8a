/** What a reader would see without carried assets, and without the check of the published release. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Bench, bundledBuilder, finish, onCopies, start, type Without } from "../harness.ts";
import { asset, says, siteFiles } from "../hugo-site.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});

const run = async (...without: readonly Without[]) =>
  finish(site, start(site, await bundledBuilder(site.folder, ...without)));

async function pushed(revision: number, ...without: readonly Without[]): Promise<void> {
  site.repository.push(siteFiles(revision));
  site.deliver();
  expect((await run(...without)).last.result).toBe("published");
  expect(site.page()).toContain(asset(revision));
}

test("without carried assets an open page loses its style sheet", async () => {
  await pushed(3);
  expect(site.published()).toEqual(expect.arrayContaining([asset(3), asset(2), asset(1)]));
  await pushed(4, ["make-release.ts", "= carryAssets(draftOf, assets);", ": string[] = [];"]);
  expect(site.published()).toContain(asset(4));
  expect(site.published()).not.toContain(asset(3));
});

test("without the check at a tick a manual change stays until the next push", async () => {
  const page = join(site.places.current, "index.html");
  const changeManually = () => {
    chmodSync(page, 0o644);
    writeFileSync(page, "changed manually");
    site.tick();
  };
  changeManually();
  const unread = await run(["run.ts", "differences(places, published)", "[]"]);
  expect(unread.last.result).toBe("nothing");
  expect(site.page()).toBe("changed manually");
  site.tick();
  expect(await run()).toMatchObject({
    last: { result: "published", reason: expect.stringContaining("changed on the disk: index.html") },
  });
  expect(site.page()).toContain(says(2));
});
