/** From a delivery to the page, by real git over https and the real Hugo. */
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { type Bench, bench, cannotBuild, closeGitHost } from "../harness.ts";
import { asset, says, siteFiles } from "../hugo-site.ts";

let site: Bench;
beforeEach(async ({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  site = await bench();
});
afterEach(() => site?.remove());
afterAll(closeGitHost);

test("the first delivery publishes the site, and the second publishes the next push", async () => {
  site.deliver();
  const first = await site.work();
  expect(first).toMatchObject({ deployed: { commit: first.head }, last: { result: "published" } });
  expect(first.last).toMatchObject({ reason: "the first release", trigger: ["delivery delivery-1"], warnings: [] });
  expect(site.page()).toContain(says(1));
  expect(site.page("post/2/index.html")).toContain("Text of page 2.");

  const commit = site.repository.push(siteFiles(2));
  site.deliver();
  const second = await site.work();
  expect(second).toMatchObject({ deployed: { commit }, head: commit, last: { result: "published" } });
  expect(second.last.reason).toContain("changed: layouts/");
  expect(second.releases).toMatchObject([{ commit, pages: 5 }, { commit: first.head }]);
  expect(site.page()).toContain(says(2));
  // A page that is still open finds its asset.
  expect(site.published()).toEqual(expect.arrayContaining([asset(1), asset(2)]));
});
