/** A site whose content is in its repository, built by the real program and by the hour. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Files } from "../../../fakes/git-repository.ts";
import { bench, bundledBuilder, finish, start, type Without } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";
import { inDocs, onOwnContent, post, posts, published, pushed, site, within } from "./own-content-scene.ts";

onOwnContent();

test("the content folders are those of the site's configuration, of every language, and no others", async () => {
  const languages = "[languages.en]\nweight = 1\n[languages.de]\nweight = 2\ncontentDir = 'texts/de'\n";
  const toml = `contentDir = "texts/en"\ndefaultContentLanguageInSubdir = false\n${siteFiles(1)["hugo.toml"]}${languages}`;
  await published({ "hugo.toml": toml, "texts/en/post/a.md": post("A"), "texts/de/post/b.md": post("B") });
  // In its unit Hugo cannot write there, and would print nothing.
  expect(readdirSync(site.places.clone)).not.toContain("public");
  expect(site.page()).toContain("/post/a/");
  expect(site.page("de/index.html")).toContain("/post/b/");
  for (const folder of ["texts/en", "texts/de"])
    expect((await pushed({ [`${folder}/post/c.md`]: post("C") })).reason).toBe(`changed: ${folder}/post/c.md`);
  expect(await pushed({ "content/post/d.md": post("D") })).toMatchObject({ result: "nothing" });
});

test("the site is built anew after its content has moved into the repository, though no commit is new", async () => {
  const moving = await bench();
  moving.deliver();
  await moving.work();
  const { content: _, ...settings } = moving.builder.settings;
  moving.tick();
  // Hugo's fake has the former settings, and so the former content.
  expect((await moving.work({ ...moving.builder, settings })).last).toMatchObject({
    result: "published",
    reason: expect.stringMatching(/^site\.content was \/.*\/content for 000001-/),
  });
  moving.remove();
});

/** Removes the site's files from docs. */
const gone: Files = Object.fromEntries(Object.keys(within("docs", siteFiles(1))).map((path) => [path, null]));

test("the builder rejects a commit in which the site's folder is missing, a link or a file, and the site stays", async () => {
  await published(within("docs", siteFiles(1)), inDocs);
  const reason = expect.stringMatching(/^the commit \w{12} has no folder docs\. Correct hooks\[\]\.site\.folder\.$/);
  for (const files of [gone, { docs: { link: "/etc" } }, { docs: { link: "static" } }, { docs: "text" }])
    expect(await pushed(files)).toMatchObject({ result: "rejected", reason });
  expect(site.page()).toContain(says(1));
});

test("no line alone keeps the build from following a link: without all three it publishes what lies outside", async () => {
  await published(within("docs", siteFiles(1)), inDocs);
  const outside = join(site.folder, "outside");
  for (const [path, text] of Object.entries({ ...siteFiles(7), ...posts })) {
    mkdirSync(dirname(join(outside, path)), { recursive: true });
    if (typeof text === "string") writeFileSync(join(outside, path), text);
  }
  site.repository.push({ ...gone, docs: { link: outside } });
  const links: Without[] = [
    ["git.ts", '"core.symlinks": "false",', ""],
    ["repository.ts", "for (const link of links) remove(join(places.clone, link));", ""],
  ];
  const check: Without = ["repository.ts", "if (settings.folder !== undefined) needFolder", "if (1 < 0) needFolder"];
  const result = async (...without: Without[]) => {
    site.deliver();
    const { last } = await finish(site, start(site, await bundledBuilder(site.folder, ...without)));
    return [last.result, site.page().includes(says(7))];
  };
  expect(await result(...links)).toEqual(["rejected", false]);
  expect(await result(...links, check)).toEqual(["published", true]);
});

test("a schedule publishes a post whose time has come", async () => {
  await published({ ...posts, "content/post/far.md": post("Far", "date: 2999-01-01\n") });
  // The push must be built before its date: five builds' time.
  const began = performance.now();
  await pushed({ "content/post/now.md": post("Now") });
  const soon = Date.now() + Math.max(6_000, 5 * (performance.now() - began));
  await pushed({ "content/post/later.md": post("Later", `date: ${new Date(soon).toISOString()}\n`) });
  expect(site.page()).not.toContain("/post/later/");
  const { commit } = site.status().deployed!;
  await sleep(Math.max(0, soon + 500 - Date.now()));
  site.scheduled();
  expect(await site.work()).toMatchObject({
    ...{ deployed: { commit }, last: { result: "published", reason: "scheduled" } },
  });
  expect(site.page()).toContain("/post/later/");
  expect(site.page()).not.toContain("/post/far/");
}, 240_000);
