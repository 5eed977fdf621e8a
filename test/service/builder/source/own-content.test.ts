/** A site whose content is in its repository, at its top or in a folder: which pushes and which times build it. */
import { describe, expect, test } from "vitest";
import { contentFolders, contentOf, movedFrom } from "../../../../service/builder/build/content.ts";
import { siteFiles } from "../hugo-site.ts";
import { begin, inDocs, onOwnContent, post, posts, published, pushed, site, within } from "./own-content-scene.ts";

onOwnContent();

describe("content in the repository", () => {
  test("it is built, a push of a post is published, and one of README is not", async () => {
    await published();
    expect(site.page()).toContain("/post/two/");
    expect(await pushed({ "content/post/three.md": post("Three") })).toMatchObject({
      result: "published",
      reason: "changed: content/post/three.md",
    });
    expect(site.page()).toContain("/post/three/");
    expect(await pushed({ "README.md": "x" })).toMatchObject({
      result: "nothing",
      reason: expect.stringMatching(/changes only README\.md: nothing of the content or site\.paths$/),
    });
  });
});

test.each<[string, Parameters<typeof movedFrom>[0]["from"], Parameters<typeof movedFrom>[1], string | undefined]>([
  ["the same", { folder: "docs", content: "/srv/c" }, { folder: "docs", content: "/srv/c" }, undefined],
  ["another folder in the repository", { folder: "", content: ["texts"] }, {}, undefined],
  ["another folder outside", { folder: "", content: "/srv/c" }, { content: "/srv/d" }, "site.content was /srv/c for r"],
  ["content outside", { folder: "", content: ["content"] }, { content: "/srv/d" }, "site.content was not set for r"],
  ["no site.folder", { folder: "", content: ["content"] }, { folder: "docs" }, "site.folder was not set for r"],
  ["another site.folder", { folder: "docs", content: ["docs/content"] }, {}, "site.folder was docs for r"],
])("a release of %s is built anew: %s", (_, from, settings, reason) => {
  expect(movedFrom({ release: "r", from }, settings)).toBe(reason);
});

test.each<[string, Parameters<typeof contentOf>[0]["from"], Parameters<typeof contentOf>[1], readonly string[]]>([
  ["those that Hugo printed", { folder: "", content: ["texts"] }, {}, ["texts"]],
  [
    "those of Hugo's default, where the content was outside the repository",
    { folder: "", content: "/srv/c" },
    {},
    ["content"],
  ],
  [
    "none, where the content is outside the repository now",
    { folder: "", content: ["texts"] },
    { content: "/srv/c" },
    [],
  ],
])("the content folders of a release are %s", (_, from, settings, folders) => {
  expect(contentOf({ ...(from && { from }) }, settings)).toEqual(folders);
});

describe("what Hugo prints of the folders", () => {
  const module = (dir: string, ...sources: string[]) =>
    `${JSON.stringify({ dir, mounts: sources.map((source) => ({ source, target: "content" })) }, null, 3)}\n`;
  const targets = {
    styles: "assets",
    notes: "contents",
    mine: "assets/content",
    posts: "/content",
    deep: "content/deep",
    odd: 7,
  };
  const mountsOf = Object.entries(targets).map(([source, target]) => ({ source, target }));
  test.each<[string, string, string | undefined, string[]]>([
    ["nothing", "", undefined, ["content"]],
    ["nothing, in a folder", "", "docs", ["docs/content"]],
    ["a fault", "Error: unmarshal failed\n{\nno JSON\n}\n", undefined, ["content"]],
    ["lines of warnings", `WARN x\n${module("/source", "posts")}WARN y\n`, undefined, ["posts"]],
    [
      "a theme's content",
      module("/source", "posts") + module("/source/themes/t/", "content"),
      undefined,
      ["posts", "themes/t/content"],
    ],
    ["a line that begins like a module", `{ WARN\n${module("/source", "posts")}`, undefined, ["posts"]],
    ["a module without its last line", module("/source", "posts").replace(/\}\n$/, "} x\n"), undefined, ["content"]],
    ["the top", module("/source", "."), undefined, [""]],
    ["a folder beside the site's", module("/source/docs", "../posts", "."), "docs", ["docs", "posts"]],
    ["folders that lead out of the repository", module("/source", "..", "../x", "/etc", "posts"), undefined, ["posts"]],
    [
      "mounts of other kinds, and content deeper down",
      `${JSON.stringify({ dir: "/source", mounts: mountsOf }, null, 3)}\n`,
      undefined,
      ["deep", "posts"],
    ],
    ["something else", '{\n  "dir": 7,\n  "mounts": "x"\n}\n', undefined, ["content"]],
    ["a line that ends with a bracket", `WARN see {\n${module("/source", "texts")}`, undefined, ["texts"]],
    ["no JSON, then a module", `{\n"dir"\n}\n${module("/source", "texts")}`, undefined, ["texts"]],
    ["a folder that is not absolute", module("source", "texts"), undefined, ["content"]],
    [
      "a target that is a list",
      '{\n"dir": "/source",\n"mounts": [{"source": "texts", "target": ["content"]}]\n}\n',
      undefined,
      [],
    ],
  ])("%s", (_, printed, folder, expected) => {
    expect(contentFolders(printed, folder === undefined ? {} : { folder })).toEqual(expected);
  });

  test("a megabyte of folders is cut", () => {
    const printed = module("/source", ...Array.from({ length: 200 }, (_, i) => `folder-${i}`));
    expect(contentFolders(printed, {}).length).toBe(50);
    expect(contentFolders(module("/source", "x".repeat(1 << 20)), {})).toEqual(["content"]);
  });
});

describe("a site in a folder of the repository", () => {
  test("it is built there, and the default paths are below it", async () => {
    await published(within("docs", { ...siteFiles(2), ...posts }), inDocs);
    expect(site.page()).toContain("/post/one/");
    expect((await pushed({ "docs/content/post/x.md": post("X") })).reason).toBe("changed: docs/content/post/x.md");
    expect((await pushed({ "docs/static/x.txt": "" })).reason).toBe("changed: docs/static/x.txt");
    expect(await pushed({ "layouts/index.html": "another", "content/x.md": post("X") })).toMatchObject({
      result: "nothing",
    });
    expect((await pushed({ ".gitmodules": "" })).reason).toBe("changed: .gitmodules");
  });

  test("a commit that tracks content there is rejected if the content is outside the repository", async () => {
    await begin(inDocs);
    expect((await pushed(within("docs", { ...siteFiles(1), ...posts }))).reason).toMatch(
      /tracks docs\/content\/post\/one\.md.* Run git rm -r --cached docs\/content/,
    );
  });
});
