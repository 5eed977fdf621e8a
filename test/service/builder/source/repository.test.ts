/** What the builder fetches, and what of it is used. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { take } from "../../../../service/builder/run/markers.ts";
import { runOnce } from "../../../../service/builder/run/run.ts";
import { checkOut, fetchHead } from "../../../../service/builder/source/repository.ts";
import { publicDomains } from "../../../../service/git-hosts/repository.ts";
import type { GitHost } from "../../../fakes/git-host.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { moduleWithout } from "../../module-without.ts";
import { type Bench, contextOf, gitHost, runWithout, type Without, withCommand } from "../harness.ts";
import { attributes, pointer, says, siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";
import { gitWith } from "./git-scene.ts";

onCopies(1);

type Settings = Partial<Bench["builder"]["settings"]>;
/** Pushes and checks out. Returns the links that were left out. */
async function checkedOut(files: Files, changes: Settings = {}): Promise<readonly string[]> {
  site.repository.push(files);
  const at = contextOf({ ...site, builder: { ...site.builder, settings: { ...site.builder.settings, ...changes } } });
  return (await checkOut(at, await fetchHead(at))).links;
}
const has = (path: string) => existsSync(join(site.places.clone, path));

test("a commit that tracks content is rejected where the content is outside, but for .gitkeep and a link in its place", async () => {
  for (const [path, file] of [
    ["content/post/0.md", "mine now"],
    ["content/x.md", { link: "/etc/passwd" }],
    ["content", "text"],
  ] as const) {
    await expect(checkedOut({ [path]: file })).rejects.toThrow(
      `tracks ${path}, but the content is in ${site.content} and belongs to its writers. Run git rm -r --cached content`,
    );
    site.repository.push({ [path]: null });
  }
  expect(await checkedOut({ "content/.gitkeep": "" })).toEqual([]);
  const docs = { "docs/content/one.md": "", "docs/hugo.toml": "" };
  await expect(checkedOut(docs, { folder: "docs" })).rejects.toThrow(/tracks docs\/content\/one\.md.* docs\/content/);
});

test("a commit in which the site's folder is missing, a link or a file is rejected, also without two lines and not without three", async () => {
  const reason = /^the commit \w{12} has no folder docs\. Correct hooks\[\]\.site\.folder\.$/;
  for (const files of [{}, { docs: { link: "static" } }, { docs: "text" }, { docs: { link: "/etc" } }])
    await expect(checkedOut(files, { folder: "docs" })).rejects.toThrow(reason);
  const lines = [
    ["for (const link of links) remove", "for (const link of []) remove"],
    ["if (settings.folder !== void 0) needFolder", "if (false) needFolder"],
  ] as const;
  const settings = { ...site.builder.settings, folder: "docs" };
  const at = { settings, places: site.places, git: gitWith(site.builder, { "core.symlinks": "true" }) };
  const open = async (count: number) => {
    type Changed = { checkOut: typeof checkOut };
    const changed = await moduleWithout<Changed>("builder/source/repository.ts", site.folder, lines.slice(0, count));
    return changed.checkOut(at, site.repository.head()!);
  };
  await expect(open(1)).rejects.toThrow(reason);
  await open(2);
  expect(has("docs/passwd")).toBe(true);
});

test("the builder leaves tracked links out and names them; without their removal a link's text is published", async () => {
  const { last } = await site.pushed({
    "static/passwd.txt": { link: "/etc/passwd" },
    "static/etc": { link: "../../../../../../../../../../../../etc" },
    content: { link: "/srv/content" },
  });
  expect(last.result).toBe("published");
  expect(last.warnings).toEqual(["symbolic links are left out: content, static/etc, static/passwd.txt"]);
  expect(site.published().filter((path) => /etc|passwd/.test(path))).toEqual([]);
  const removal = "for (const link of links) remove(join(places.clone, link));";
  site.request("again");
  await runWithout(site, [["source/repository.ts", removal, ""]]);
  expect(site.page("passwd.txt")).toBe("/etc/passwd");
});

test("the builder makes a broken clone anew", async () => {
  const packs = join(site.places.clone, ".git/objects");
  const objects = (readdirSync(packs, { recursive: true }) as string[]).map((path) => join(packs, path));
  for (const object of objects.filter((path) => statSync(path).isFile())) {
    rmSync(object);
    writeFileSync(object, "");
  }
  const { last } = await site.pushed(siteFiles(2));
  expect(last).toMatchObject({ result: "published", warnings: [expect.stringContaining("made anew")] });
  expect(site.page()).toContain(says(2));
});

test("a fault that is not the clone's leaves the clone, and git's words are the reason", async () => {
  site.deliver();
  const at = withCommand(site, "fetch", { stderr: "fatal: a riddle" });
  const { last } = await runOnce(at, take(site.places).markers);
  expect(last).toMatchObject({ result: "failed", reason: "git cannot fetch: fatal: a riddle", warnings: [] });
  expect(existsSync(site.places.clone)).toBe(true);
  // The next run measures the disk again, where this one makes no room for it.
  expect(existsSync(site.places.roomFor)).toBe(false);
});

test("a repository's names that are not UTF-8 stop a build and no later one, and would stop the builder for good", async () => {
  const entry = (path: string) => `M 100644 inline "${path}"\ndata 1\nx\n`;
  const input = `commit refs/heads/main\ncommitter A <a@example.net> 1 +0000\ndata 1\nx\nfrom ${site.repository.head()}\n`;
  execFileSync("git", ["--git-dir", site.repository.folder, "fast-import", "--quiet", "--force"], {
    input: `${input}${entry("\\377")}${entry("static/\\377.txt")}\n`,
  });
  const reason = expect.stringMatching(/^Hugo wrote a name that is not UTF-8: .*\. Rename it\.$/);
  expect((await site.delivered()).last).toMatchObject({ result: "rejected", reason });
  expect(readdirSync(site.places.clone)).toEqual([".git"]);
  // As text, such a name is another one.
  const names: Without = ["files.ts", 'eachEntry(folder, "buffer" as BufferEncoding)', "eachEntry(`${folder}`)"];
  await runWithout(site, [names]);
  await expect(runWithout(site, [names])).rejects.toThrow(/pushgate-builder: .*ENOTEMPTY/);
});

test("the files of Git LFS are fetched once, also those of a submodule, and one that its server lacks fails by its name", async () => {
  const { lfs, ...host } = await gitHost();
  const work = async (files: Files) => (await site.pushed(files)).last;
  const theme = { ...attributes, "static/t.png": lfs.pointerTo("of the theme") };
  const using = {
    ".gitmodules": `[submodule "t"]\n\tpath = themes/t\n\turl = ${host.url("with-lfs")}\n`,
    "themes/t": { submodule: host.repository("with-lfs").push(theme) },
    "hugo.toml": `${siteFiles(1)["hugo.toml"] as string}theme = "t"\n`,
  };
  const own = { ...attributes, "static/a.png": lfs.pointerTo("of the site"), "static/b.txt": `x${pointer}` };
  expect(await work({ ...using, ...own })).toMatchObject({ result: "published", warnings: [] });
  expect([site.page("a.png"), site.page("t.png")]).toEqual(["of the site", "of the theme"]);
  lfs.objects.clear();
  expect(await work({ "static/b.txt": "b" })).toMatchObject({ result: "published" });
  const reason = /^Git LFS does not bring static\/c\.png: Object does not exist.* git lfs push --all/;
  const failed = { result: "failed", reason: expect.stringMatching(reason) };
  expect(await work({ "static/c.png": pointer })).toMatchObject(failed);
  expect(site.page("a.png")).toBe("of the site");
  // The failed run removed the checkout, and what was fetched before is there.
  expect(await work({ "static/c.png": lfs.pointerTo("c") })).toMatchObject({ result: "published" });
});

describe("submodules", () => {
  let host: GitHost;
  let theme: { readonly name: string; readonly commit: string };
  beforeEach(async () => {
    host = await gitHost();
    const name = `theme-${Date.now()}`;
    const files = { "static/theme.css": "a{}", "static/shadow": { link: "/etc/passwd" } };
    theme = { name, commit: host.repository(name).push(files) };
  });
  const using = (url: string, name = "t", commit = theme.commit): Files => ({
    ".gitmodules": `[submodule "${name}"]\n\tpath = themes/t\n\turl = ${url}\n`,
    "themes/t": { submodule: commit },
  });

  test("those that .gitmodules names are fetched without their links, and leave when it no longer does", async () => {
    const toml = siteFiles(1)["hugo.toml"] as string;
    const { last } = await site.pushed({ ...using(host.url(theme.name)), "hugo.toml": `${toml}theme = "t"\n` });
    const warnings = ["symbolic links are left out: themes/t/static/shadow"];
    expect(last).toMatchObject({ result: "published", warnings });
    expect(site.published()).toContain("theme.css");
    expect(site.published()).not.toContain("shadow");
    await checkedOut({ ".gitmodules": null, "themes/t": null });
    expect(["themes/t", ".git/modules"].map(has)).toEqual([false, false]);
  });

  test("take each other's names and places at the first try, and those within each other only by a new checkout", async () => {
    const made = (name: string, files: Files) => ({ name, commit: host.repository(name).push(files) });
    const of = ({ name, commit }: typeof theme, as: string) => using(host.url(name), as, commit);
    const other = made(`other-${theme.name}`, { "c.css": "" });
    const holding = (part: typeof theme, as: string) => of(made(`holding-${theme.name}`, of(part, as)), "t");
    for (const files of [of(theme, "t"), of(other, "new"), holding(theme, "t"), holding(other, "new")]) {
      await checkedOut(files);
      writeFileSync(site.places.checkedOut, "");
    }
    expect(has("themes/t/themes/t/c.css")).toBe(true);
    site.push(holding(theme, "newer"));
    const { last } = await runWithout(site, [["source/repository.ts", "if (!isOther || ", "if (isOther || "]]);
    expect(last.reason).toMatch(/^a submodule: /);
  });

  test("an address relative to the repository's leads to the same git host, and none is read if site.submodules is false", async () => {
    await checkedOut(using(`../${theme.name}.git`), { submodules: false });
    expect(has("themes/t/static")).toBe(false);
    await checkedOut({ "README.md": "" });
    expect(readFileSync(join(site.places.clone, "themes/t/static/theme.css"), "utf8")).toBe("a{}");
  });

  test.each([
    ["git@", ":", {}],
    ["ssh://git@", "/", {}],
    ["git@", ":", { agent: "/dev/null", knownHosts: "/dev/null" }],
  ])("an address of a public git host, %s…, is read over https where no key opens it", async (begin, end, key) => {
    const { host: name } = new URL(host.url(theme.name));
    const files = using(`${begin}${name}${end}${theme.name}.git`);
    await expect(checkedOut(files, key)).rejects.toThrow(/^a submodule: \S+ is (neither|read over SSH)/);
    onTestFinished(() => void Reflect.deleteProperty(publicDomains, "test"));
    Object.assign(publicDomains, { test: name });
    await checkedOut(files, key);
    expect(has("themes/t/static/theme.css")).toBe(true);
  });

  test("the reason names a theme cloned in place and a commit that its repository lacks, unless submodules are off", async () => {
    const inPlace = { "themes/t": { submodule: theme.commit } };
    await expect(checkedOut(inPlace)).rejects.toThrow(/^a submodule: themes\/t is a repository cloned into this one, /);
    await checkedOut(inPlace, { submodules: false });
    const lacking = using(host.url(theme.name), "t", "2".repeat(40));
    const reason = /^a submodule: themes\/t lacks the commit .* \(git: fatal: .*not our ref 2{40}\)/;
    await expect(checkedOut(lacking)).rejects.toThrow(reason);
  });
});
