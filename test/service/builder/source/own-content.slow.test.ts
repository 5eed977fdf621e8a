/** A site whose content is in its repository, built by the real program and by the hour. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Files } from "../../../fakes/git-repository.ts";
import { bundledBuilder, finish, start, type Without } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";
import { begin, inDocs, onOwnContent, post, posts, published, pushed, site, within } from "./own-content-scene.ts";

onOwnContent();

describe("content in the repository", () => {
  test("the folders are those of the site's configuration, of every language, and no others", async () => {
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

  test("a configuration that Hugo cannot read fails with Hugo's reason, and the next good push is published", async () => {
    await published();
    expect(await pushed({ "hugo.toml": "nonsense [" })).toMatchObject({
      result: "failed",
      reason: expect.stringMatching(/^Hugo failed: .*hugo\.toml:1/),
    });
    expect(await pushed({ ...siteFiles(2), "hugo.toml": siteFiles(1)["hugo.toml"]! })).toMatchObject({
      result: "published",
    });
    expect(site.page()).toContain(says(2));
  });

  test("the site is built anew after its content has moved into the repository, though no commit is new", async () => {
    await begin();
    site.deliver();
    expect((await site.work()).last.result).toBe("published");
    site.repository.push({ "README.md": "x" });
    const { content: _, ...settings } = site.builder.settings;
    site.tick();
    // Hugo's fake has the former settings, and so the former content.
    expect((await site.work({ ...site.builder, settings })).last).toMatchObject({
      result: "published",
      reason: expect.stringMatching(/^site\.content was \/.*\/content for 000001-/),
    });
  });
});

describe("a site in a folder of the repository", () => {
  test.each<[string, Files]>([
    ["is missing", {}],
    ["is a link to a folder of the host", { docs: { link: "/etc" } }],
    ["is a link to a folder of the repository", { docs: { link: "static" } }],
    ["is a file", { docs: "text" }],
  ])("the builder rejects a commit in which the folder %s, and the site stays", async (_, files) => {
    await published(within("docs", siteFiles(1)), inDocs);
    const gone = Object.fromEntries(Object.keys(within("docs", siteFiles(1))).map((path) => [path, null]));
    expect(await pushed({ ...gone, ...files })).toMatchObject({
      result: "rejected",
      reason: expect.stringMatching(/^the commit [0-9a-f]{12} has no folder docs\. Correct hooks\[\]\.site\.folder\.$/),
    });
    expect(site.page()).toContain(says(1));
  });

  test("no line alone keeps the build from following a link: without all three it publishes what lies outside", async () => {
    await published(within("docs", siteFiles(1)), inDocs);
    const outside = join(site.folder, "outside");
    for (const [path, text] of Object.entries({ ...siteFiles(7), ...posts })) {
      mkdirSync(dirname(join(outside, path)), { recursive: true });
      if (typeof text === "string") writeFileSync(join(outside, path), text);
    }
    const gone = Object.fromEntries(Object.keys(within("docs", siteFiles(1))).map((path) => [path, null]));
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
});

describe("a schedule", () => {
  test("it publishes a post whose time has come, and makes no release if nothing has changed", async () => {
    await published({ ...posts, "content/post/far.md": post("Far", "date: 2999-01-01\n") });
    const { deployed, releases } = site.status();
    site.scheduled();
    const same = await site.work();
    expect(same.last).toMatchObject({
      ...{ result: "nothing", trigger: ["schedule"] },
      reason: `scheduled: the build is the same as ${deployed!.release}`,
    });
    expect(same).toMatchObject({ deployed, releases });

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

  test("without the comparison each scheduled build would take the place of a former release", async () => {
    await published();
    const bundle = await bundledBuilder(site.folder, ["run.ts", "if (unlessSame &&", "if (false &&"]);
    site.scheduled();
    expect((await finish(site, start(site, bundle))).last).toMatchObject({ result: "published", reason: "scheduled" });
  });
});
