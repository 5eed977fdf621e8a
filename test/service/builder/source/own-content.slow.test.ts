/** A link in place of the site's folder, which root mounts for the build, with the real program. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { runWithout, type Without } from "../harness.ts";
import { inDocs, says, siteFiles } from "../hugo-site.ts";
import { onSites, site } from "../scene.ts";

onSites({ ownContent: true, folder: "docs" });

test("no line alone keeps the build from following a link: without all three it publishes what lies outside", async () => {
  site.repository.push(inDocs(siteFiles(1)));
  const outside = join(site.folder, "outside");
  for (const [path, text] of Object.entries({ ...siteFiles(7), "content/post/one.md": "Text." })) {
    mkdirSync(dirname(join(outside, path)), { recursive: true });
    if (typeof text === "string") writeFileSync(join(outside, path), text);
  }
  const result = async (...without: Without[]) => {
    site.request("build");
    const { last } = await runWithout(site, without);
    return [last.result, site.page().includes(says(7))];
  };
  expect(await result()).toEqual(["published", false]);
  const gone = Object.keys(inDocs(siteFiles(1))).map((path) => [path, null] as const);
  site.repository.push({ ...Object.fromEntries(gone), docs: { link: outside } });
  const links: Without[] = [
    ["git.ts", '"core.symlinks": "false",', ""],
    ["repository.ts", "for (const link of links) remove(join(places.clone, link));", ""],
  ];
  const check: Without = ["repository.ts", "if (settings.folder !== undefined) needFolder", "if (1 < 0) needFolder"];
  expect(await result(...links)).toEqual(["rejected", false]);
  expect(await result(...links, check)).toEqual(["published", true]);
});
