/** Which changes build a site: unknown ones do. */
import { posix } from "node:path";
import { expect, test } from "vitest";
import { buildPaths } from "../../../../infra/config/site-schema.ts";
import { type Known, plan, planBy, relevant } from "../../../../service/builder/source/decide.ts";

const head = "b".repeat(40);
const changed = (...paths: string[]) => ({ paths, folders: new Set(paths.map(posix.dirname)) });

test.each([
  ...[".gitmodules", "bin/deploy-site", "deploy.sh", "hugo.toml", "config/_default/params.yaml", "go.sum", "_vendor/x"],
  // Of a tool, and of a workspace of Go's.
  ...["package-lock.json", "postcss.config.js", ".babelrc", ".postcssrc.json", "docsy.work"],
])("a change of %s starts a build", (path) => {
  expect(planBy(changed("README.md", path), buildPaths, head, [])).toMatchObject({
    commit: head,
    reason: `changed: ${path}`,
  });
});

test("a change of another file starts no build", () => {
  const others = [".editorconfig", "LICENSE", "src/deploy.sh", ".github/workflows/a.yml", "hugo.toml.bak"];
  expect(relevant(others, buildPaths)).toEqual([]);
});

test.each([
  ["a folder without its slash", "static", "static/a/b.css", true],
  ["a folder that became a submodule", "themes/", "themes", true],
  ["a star within a segment", "themes/*/layouts/", "themes/plain/layouts/index.html", true],
  ["a star does not cross a slash", "themes/*.toml", "themes/plain/theme.toml", false],
  ["two stars do not cross a slash either", "themes/**/theme.toml", "themes/a/b/theme.toml", false],
  ["a name that begins with a dot", "static", "static/.well-known/security.txt", true],
  ["a line end in a name", "static", "static/a\nb", true],
  ["a dot is a dot", "go.mod", "goxmod", false],
  ["a star alone", "*", "anything/at/all", true],
  ["a slash alone", "/", "anything/at/all", true],
  ["a bracket is a bracket", "[id]", "[id]/index.html", true],
  ["a bracket is no class", "[id]", "i", false],
  ["an exclamation mark negates nothing", "!static", "layouts/index.html", false],
])("%s", (_name, pattern, path, leads) => {
  expect(relevant([path], [pattern])).toEqual(leads ? [path] : []);
});

const [a, b] = ["a".repeat(40), head];
const known: Known = {
  head: b,
  deployed: { release: "000002-aaaaaaaaaaaa", commit: a },
  ...{ held: null, requested: false, scheduled: false, moved: undefined, tampered: [] },
};
const held: Known = { ...known, held: b };
const ofNow = { head: a, held: a, moved: "another site.hugo", scheduled: true };
test.each<[string, Known, string | null | undefined, string]>([
  ["nothing published", { ...known, deployed: null }, b, "the first release"],
  ["published already", { ...known, head: a }, null, "published already"],
  ["requested", { ...known, head: a, requested: true }, a, "requested"],
  ["scheduled", { ...known, head: a, scheduled: true }, a, "scheduled"],
  ["scheduled and requested", { ...known, head: a, scheduled: true, requested: true }, a, "requested"],
  ["from another folder", { ...known, head: a, moved: "site.folder was not set" }, a, "site.folder was not set"],
  ["tampered with", { ...known, head: a, tampered: ["index.html"] }, a, "changed on the disk: index.html"],
  ["rolled back", held, null, "rolled back to 000002-aaaaaaaaaaaa, away from bbbbbbbbbbbb: a new commit is"],
  ["rolled back, requested: the rollback's commit is built", { ...held, requested: true }, a, "requested"],
  ["rolled back, tampered with", { ...held, tampered: ["x"] }, a, "changed on the disk: x"],
  ["rolled back, scheduled: the same", { ...held, scheduled: true }, a, "scheduled"],
  ["rolled back, from another folder", { ...held, moved: "site.folder was not set" }, null, "rolled back"],
  ["rolled back from settings, scheduled", { ...known, ...ofNow }, null, "aaaa, away from the current settings: a new"],
])("it is decided without the repository: %s", (_name, at, commit, reason) => {
  expect(plan(at)).toMatchObject({ commit, reason: expect.stringContaining(reason) });
});

test("the changed paths decide on a new head, also after a rollback, and unknown ones start a build", () => {
  for (const at of [known, { ...known, held: "c".repeat(40) }]) expect(plan(at)).toBeUndefined();
  expect(planBy({ unknown: "rewritten" }, buildPaths, b, [])).toEqual({ commit: b, reason: "rewritten" });
});

test("a scheduled build of the published commit is a release only if it differs; a requested one always is", () => {
  const at = { ...known, head: a };
  expect(plan({ ...at, scheduled: true })?.unlessSame).toBe(true);
  expect(plan({ ...known, scheduled: true })?.unlessSame).toBe(false);
  for (const why of [{ requested: true }, { tampered: ["x"] }])
    expect(plan({ ...at, scheduled: true, ...why })?.unlessSame).toBeUndefined();
});

test("a push below a folder that is read builds, whatever characters its name has, and one beside it does not", () => {
  const by = (path: string, ...read: string[]) => planBy(changed(path), buildPaths, b, read);
  expect(by("content/a.md", "content").commit).toBe(b);
  expect(by("texts/[de]* é/a.md", "texts/[de]* é").commit).toBe(b);
  expect(by("README.md", "").commit).toBe(b);
  expect(by("a/submodule", "a/submodule/layouts").commit).toBe(b);
  // Of a release of a former version of the builder it is not known.
  expect(planBy(changed("README.md"), buildPaths, b).commit).toBe(b);
  const reason = "bbbbbbbbbbbb changes only content.md: nothing that the site is built from";
  expect(by("content.md", "content")).toEqual({ commit: null, reason });
});

test("a plan without a build names the changed paths", () => {
  const many = Array.from({ length: 30 }, (_, i) => `notes/${i}\u202e.md`);
  const reason = /^b{12} changes only notes\/0\?\.md, .* and 25 more: nothing that the site is built from$/;
  const none = { commit: null, reason: expect.stringMatching(reason) };
  expect(planBy(changed(...many), buildPaths, b, [])).toEqual(none);
  expect(planBy(changed(), buildPaths, b, []).reason).toBe("bbbbbbbbbbbb changes no file");
});
