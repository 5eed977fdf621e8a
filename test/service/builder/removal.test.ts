/** What a reader would meet if the builder did not care for open pages, or for what hands did to a release. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Bench, bundledBuilder, finish, onCopies, start, type Without } from "./harness.ts";
import { asset, says, siteFiles } from "./hugo-site.ts";

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

test("assets are carried along: without, a page that is open meanwhile loses its style", async () => {
  await pushed(3);
  expect(site.published()).toEqual(expect.arrayContaining([asset(3), asset(2), asset(1)]));
  await pushed(4, [
    "release.ts",
    "carryAssets(settings, places, release, staying(places, release, former), files, warnings);",
    "",
  ]);
  expect(site.published()).toContain(asset(4));
  expect(site.published()).not.toContain(asset(3));
});

test("a tick reads what is published: without, what a hand wrote stands until the next push", async () => {
  const page = join(site.places.current, "index.html");
  const byHand = () => {
    chmodSync(page, 0o644);
    writeFileSync(page, "by hand");
    site.tick();
  };
  byHand();
  const unread = await run(["run.ts", "differences(places, published)", "[]"]);
  expect(unread.last.result).toBe("nothing");
  expect(site.page()).toBe("by hand");
  site.tick();
  expect(await run()).toMatchObject({
    last: { result: "published", reason: expect.stringContaining("changed on the disk: index.html") },
  });
  expect(site.page()).toContain(says(2));
});
