/** What a reader would see without carried assets, and without the check of the published release. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Bench, bundledBuilder, finish, onCopies, start, type Without } from "../harness.ts";
import { asset, siteFiles } from "../hugo-site.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});

const run = async (...without: readonly Without[]) =>
  finish(site, start(site, await bundledBuilder(site.folder, ...without)));

test("without carried assets an open page loses its style sheet", async () => {
  site.repository.push(siteFiles(3));
  site.deliver();
  await run(["make-release.ts", "= carryAssets(draftOf, assets);", ": string[] = [];"]);
  expect(site.page()).toContain(asset(3));
  expect(site.published()).toContain(asset(3));
  expect(site.published()).not.toContain(asset(2));
});

test("without the check at a tick a manual change stays until the next push", async () => {
  const page = join(site.places.current, "index.html");
  chmodSync(page, 0o644);
  writeFileSync(page, "changed manually");
  site.tick();
  expect((await run(["run.ts", "differences(places, published)", "[]"])).last.result).toBe("nothing");
  expect(site.page()).toBe("changed manually");
});
