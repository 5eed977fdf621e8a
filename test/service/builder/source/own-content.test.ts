/** Where the content is that a site is built from, and which pushes of it build. */
import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { builderSettings } from "../../../../infra/host/builder/builder.ts";
import { fromOf, movedFrom, pagesListed, readsContent } from "../../../../service/builder/build/content.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { rebuilt } from "../../../fixtures.ts";
import { attributes, inDocs, pointer, siteFiles } from "../hugo-site.ts";
import { onSites, site } from "../scene.ts";

type From = Parameters<typeof movedFrom>[0]["from"];
type Given = Parameters<typeof movedFrom>[1];
const never = "0001-01-01T00:00:00Z";

const another = "site.hugo, site.npm or site.tools was another for r";
test.each<[string, From, Given, string | undefined]>([
  ["the same folders", { folder: "docs", content: "/srv/c" }, { folder: "docs", content: "/srv/c" }, undefined],
  ["another folder in the repository", { folder: "" }, {}, undefined],
  ["another folder outside", { folder: "", content: "/srv/c" }, { content: "/srv/d" }, "site.content was /srv/c for r"],
  ["content outside", { folder: "" }, { content: "/srv/d" }, "site.content was not set for r"],
  ["no site.folder", { folder: "" }, { folder: "docs" }, "site.folder was not set for r"],
  ["the same settings of Hugo", { folder: "", digest: "a" }, { generator: { digest: "a" } }, undefined],
  ["others", { folder: "", digest: "a" }, { generator: { digest: "b" } }, another],
  ["unknown ones", { folder: "" }, { generator: { digest: "b" } }, another],
  ["another site.folder", { folder: "docs" }, {}, "site.folder was docs for r"],
])("a release of %s is built anew: %s", (_, from, settings, reason) => {
  expect(movedFrom({ release: "r", from }, settings)).toBe(reason);
});

test.each([
  // As Hugo 0.111 and 0.168 write it.
  ["a slash, .html, no host, each once", ["false,https://h/1/", "false,https://h/1/", "false,/2.html,page,x"], 2],
  ["a draft, no address, JSON", ["true,https://h/4/", "false,", "false,,page,x", "false,https://h/5/index.json"], 0],
  ["one that is to expire", ["false,/1/"], 1, "2999-01-01T00:00:00Z"],
  ["one that has expired", ["false,/1/"], 0, "2001-01-01T00:00:00+02:00"],
  ["one that is to come", ["false,/1/"], 0, undefined, "2999-01-01T00:00:00Z"],
])("of the content's pages are to be rendered: %s", (_, ends, count, expiry = never, begin = never) => {
  const lines = ends.map((end) => `content/a.md,,"A, ""b""",${begin},${expiry},${begin},${end}\n`);
  expect(pagesListed(`path,slug,title,date,expiryDate,publishDate,draft,permalink\n${lines.join("")}`)).toBe(count);
});

test("a page is to be rendered from its time on, and until it expires", () => {
  const [begins, expires] = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"];
  const at = (now: number) =>
    pagesListed(`a.md,,A,${begins},${expires},${begins},false,/1/\n`, Date.parse(begins) + now);
  expect([-1, 0, 999, 1_000].map(at)).toEqual([0, 1, 1, 0]);
});

const module = (dir: string, ...sources: unknown[]) =>
  `${JSON.stringify({ dir, mounts: sources.map((source) => ({ source })) }, null, 3)}\n`;
const one = module("/source", "posts");

test.each<[string, string, string[], folder?: string]>([
  ["nothing", "", [""]],
  ["a fault", "Error: unmarshal failed\n{\nno JSON\n}\n", [""]],
  ["something else", '{\n  "dir": 7,\n  "mounts": "x"\n}\n', [""]],
  ["a folder that is not absolute", module("source", "texts"), [""]],
  ["a module without its last line", one.replace(/\}\n$/, "} x\n"), [""]],
  ["a module between other lines, some like its own", `WARN {\n{ WARN\n{\n"dir"\n}\n${one}WARN y\n`, ["posts"]],
  ["a theme, all of it", one + module("/source/themes/t/", "content"), ["posts", "themes/t", "themes/t/content"]],
  ["a theme that holds its example", module("/source/a", "b") + module("/source/", "c"), ["", "a/b", "c"], "a"],
  ["the top", module("/source", "."), [""]],
  ["a folder beside the site's", module("/source/docs", "../posts", "."), ["docs", "posts"], "docs"],
  ["folders that lead out of the repository", module("/source", "..", "../x", "/etc", "posts"), ["posts"]],
  ["a mount that is no text, and one twice", module("/source", "a", 7, "a"), ["", "a"]],
])("what Hugo prints of the folders %s", (_, text, expected, folder) => {
  expect(fromOf(folder === undefined ? {} : { folder }, text).read).toEqual(expected);
});

test.each<[string, string, boolean]>([
  ["nothing", "", true],
  ["the content", module("/source", "../content", "static"), true],
  ["a folder of it", module("/source", "/content/en"), true],
  ["the site's folders and a module's", module("/source", ".", "content/en") + module("/cache/m", "layouts"), false],
])("content outside of the repository is read where Hugo mounts %s: %s", (_, listed, isRead) => {
  expect(readsContent(listed, "/srv/content")).toBe(isRead);
});

describe("a site in a folder", () => {
  const [hook] = rebuilt.hooks;
  const { paths } = builderSettings({ ...hook!, site: { ...hook!.site!, folder: "docs" } });
  onSites({ ownContent: true, folder: "docs", paths });

  test("is built from its content of every language, a push beside that builds nothing, and one into a new folder builds", async () => {
    const pushed = async (files: Files) => (await site.pushed(files)).last;
    const post = (title: string) => `---\ntitle: ${title}\n---\nText.\n`;
    const languages = "[languages.en]\nweight = 1\n[languages.de]\nweight = 2\ncontentDir = 'texts/de'\n";
    const mounts = "[[module.mounts]]\nsource = '../shared'\ntarget = 'data'\n";
    const missing = "[[module.mounts]]\nsource = '../more/files'\ntarget = 'data/more'\n";
    const beside = (text: string) => ({ "layouts/a.html": text, "texts/en/x.md": text, "docs/content/d.md": text });
    const toml = `contentDir = "texts/en"\nstaticDir = "media"\ndefaultContentLanguageInSubdir = false\n${siteFiles(1)["hugo.toml"]}${languages}${mounts}${missing}`;
    const files = { "hugo.toml": toml, "texts/en/post/a.md": post("A"), "texts/de/post/b.md": post("B") };
    const pointers = { "media/a.png": pointer, "static/unused.png": pointer };
    const lfs = { ...attributes, ".lfsconfig": "[lfs]\n\tfetchexclude = *.png\n", ...inDocs(pointers) };
    const reason = expect.stringContaining("pointers of Git LFS: docs/media/a.png. ");
    const first = { ...inDocs({ ...siteFiles(1), ...files }), "shared/b.json": "{}", ...beside("one"), ...lfs };
    expect(await pushed(first)).toMatchObject({ result: "rejected", reason });
    expect(await pushed({ "docs/media/a.png": null })).toMatchObject({ result: "published", warnings: [] });
    // In its unit Hugo cannot write there, and would print nothing.
    expect(readdirSync(`${site.places.clone}/docs`)).not.toContain("public");
    expect(site.page()).toContain("/post/a/");
    expect(site.page("de/index.html")).toContain("/post/b/");
    for (const path of ["docs/texts/en/post/c.md", "docs/texts/de/post/c.md", "shared/a.json", "more/files/a.json"])
      expect((await pushed({ [path]: path.endsWith(".md") ? post("C") : "{}" })).reason).toBe(`changed: ${path}`);
    expect(site.page()).toContain("/post/c/");
    expect(await pushed(beside("another"))).toMatchObject({ result: "nothing" });
  });
});
