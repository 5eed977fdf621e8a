/** Previews of branches, with real git and Hugo. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { waiting } from "../../../../service/builder/outbox.ts";
import { folderOf } from "../../../../service/builder/run/previews.ts";
import { refsOf, runWithout } from "../harness.ts";
import { onSites, site } from "../scene.ts";

const url = "https://preview.example.org/";
const previews = { branches: ["*"], keep: 3, url };
const content = { "content/post/a.md": "---\ntitle: A\n---\nText.\n" };
const absolute = '<a href="{{ .Site.BaseURL }}post/">{{ .Site.Title }}</a>';

const outbox = mkdtempSync(join(tmpdir(), "pushgate-reports-"));
afterAll(() => rmSync(outbox, { recursive: true }));
onSites({
  ownContent: true,
  assets: [],
  previews,
  reports: { folder: outbox, status: true, purge: false, notify: [] },
});

/** Makes a branch of main, or goes on with it. */
function branch(name: string, files: Parameters<typeof site.repository.push>[0] = {}): string {
  if (site.repository.head(`refs/heads/${name}`) === undefined)
    site.repository.point(site.repository.head()!, `refs/heads/${name}`);
  return site.repository.push({ ...content, ...files }, { branch: name });
}
const folders = () => readdirSync(site.places.current).sort();
const reasons = () => site.journal.map(({ result, reason }) => `${result}: ${reason}`);
const brokenLayout = { "layouts/index.html": "{{ nothing }}" };

test("each branch but the site's own is at an address of its own, and a push to one leaves the others' files as they are", async () => {
  site.repository.push({ "layouts/index.html": absolute });
  branch("draft");
  branch("feature/Karte", { "layouts/index.html": `karte ${absolute}` });
  await site.delivered();
  const karte = folderOf("feature/Karte");
  expect(karte).toMatch(/^feature-karte_[0-9a-f]{8}$/);
  expect(folders()).toEqual(["draft", karte]);
  expect(site.page("draft/index.html")).toContain(`<a href=${url}draft/post/>Site</a>`);
  expect(site.page(`${karte}/index.html`)).toContain(`karte <a href=${url}${karte}/post/>`);
  const ends = [`draft, at ${url}draft/`, `feature/Karte, at ${url}${karte}/`];
  expect(reasons().toSorted()).toEqual(ends.map((end) => `published: the branch ${end}`));
  const former = site.status().deployed!.release;
  branch("draft", { "content/post/b.md": "---\ntitle: B\n---\n" });
  const { deployed } = await site.delivered();
  expect(site.published()).toEqual(expect.arrayContaining(["draft/post/b/index.html", `${karte}/post/a/index.html`]));
  const same = (release: string) => readFileSync(join(site.places.release(release), karte, "index.html"), "utf8");
  expect(same(deployed!.release)).toBe(same(former));
  expect(site.journal).toHaveLength(3);
});

test("a build that fails delays no other branch, is tried again by the timer three times, by each request, and anew with other settings", async () => {
  branch("bad", brokenLayout);
  branch("good");
  await site.delivered();
  expect(folders()).toEqual(["good"]);
  expect(site.journal.map(({ result }) => result).toSorted()).toEqual(["failed", "published"]);
  expect(site.status().failing).toBeUndefined();
  const runs = async (mark: () => void, builder = site.builder) => {
    const before = site.journal.length;
    mark();
    await site.work(builder);
    return reasons().slice(before);
  };
  const failed = [expect.stringMatching(/^failed: .*nothing/)];
  const none = ["nothing: 2 branches are published as they are, but for bad"];
  expect(await runs(site.deliver)).toEqual(none);
  for (const _ of [2, 3, 4]) expect(await runs(site.tick)).toEqual(failed);
  expect(await runs(site.tick)).toEqual(none);
  expect(await runs(() => site.request("me"))).toEqual(failed);
  const settings = { ...site.builder.settings, submodules: false };
  for (const expected of [failed, failed, failed, failed, none])
    expect(await runs(site.tick, { ...site.builder, settings })).toEqual(expected);
  branch("bad", { "layouts/index.html": "right" });
  expect(await runs(site.deliver)).toEqual([`published: the branch bad, at ${url}bad/`]);
  expect(await runs(site.deliver)).toEqual(["nothing: 2 branches are published as they are"]);
});

test("two that fail are each tried once for a request", async () => {
  for (const name of ["one", "two"]) branch(name, brokenLayout);
  await site.delivered();
  site.request("me");
  await site.work();
  expect(site.journal.map(({ result }) => result)).toEqual(Array(4).fill("failed"));
});

test("a preview leaves with its branch, and the oldest where there are more than are kept", async () => {
  for (const name of ["a", "b", "c"]) branch(name);
  site.repository.point(site.repository.head()!, "refs/heads/old");
  await site.delivered();
  expect(folders()).toEqual(["a", "b", "c"]);
  site.repository.remove("refs/heads/old");
  site.repository.remove("refs/heads/b");
  expect((await site.delivered()).last).toMatchObject({ result: "published", reason: "removed: b" });
  expect(folders()).toEqual(["a", "c"]);
  expect(refsOf(site)).toEqual(["refs/pushgate/branches/a", "refs/pushgate/branches/c"]);
  // Also where another branch's build fails, which is tried once.
  site.repository.remove("refs/heads/a");
  branch("bad", brokenLayout);
  site.tick();
  await site.work();
  expect(reasons().slice(-3)).toEqual([
    "published: removed: b",
    expect.stringMatching(/^failed/),
    "published: removed: a",
  ]);
});

test("the preview of a branch that becomes the site's own leaves", async () => {
  for (const name of ["next", "other"]) branch(name);
  await site.delivered();
  const builder = { ...site.builder, settings: { ...site.builder.settings, branch: "next" } };
  expect((await site.delivered(builder)).last).toMatchObject({ reason: expect.stringContaining("the branch main") });
  expect(folders()).toEqual(["main", "other"]);
});

test("the git host gets each branch's result with its address", async () => {
  // Of no other test: within a second, commits of the same files are one, and the outbox is of all tests.
  const commits = [branch("a", { "content/post/own.md": "---\ntitle: Own\n---\n" }), branch("b", brokenLayout)];
  await site.delivered();
  const sent = waiting(outbox).map(({ report }) => report!);
  for (const [i, [name, end]] of [["a", "success"] as const, ["b", "failure"] as const].entries())
    expect(sent.flatMap(({ commit, state, url }) => (commit === commits[i] ? [[state, url]] : []))).toEqual(
      ["pending", end].map((state) => [state, `${url}${name}/`]),
    );
});

test("the code of a fork is built if git may fetch other refs than branches", async () => {
  site.repository.point(site.repository.prepare(content), "refs/pull/1/head");
  site.deliver();
  const branches = "`+refs/heads/${pattern}:${branches}/${pattern}`";
  await runWithout(site, [["source/repository.ts", branches, "`+refs/*:${branches}/*`"]]);
  expect(folders()).toContain(folderOf("pull/1/head"));
});

test("names of branches become folders that differ, and have nothing with a meaning in a path or a URL", () => {
  const names = ["a/b", "a-b", "A-b", "a.b", "..", "日本", "本日", "x".repeat(41), "x".repeat(42), "-", "index.html"];
  const made = names.map(folderOf);
  expect(new Set(made).size).toBe(names.length);
  for (const name of made) expect(name).toMatch(/^[a-z0-9-]{1,40}(_[0-9a-f]{8})?$/);
});

describe("with patterns", () => {
  onSites({ ownContent: true, previews: { ...previews, branches: ["feature/*", "staging"] } });

  test("no other branch is fetched, no tag, and no request for merging, which may be of a fork", async () => {
    for (const name of ["feature/x", "staging-2", "other"]) branch(name);
    const fork = site.repository.prepare({ "layouts/index.html": "fork" });
    site.repository.point(fork, "refs/pull/1/head");
    site.repository.point(fork, "refs/tags/staging");
    await site.delivered();
    expect(folders()).toEqual([folderOf("feature/x")]);
    expect(existsSync(join(site.places.clone, ".git/refs/tags/staging"))).toBe(false);
    expect(() => execFileSync("git", ["-C", site.places.clone, "cat-file", "-e", fork], { stdio: "ignore" })).toThrow();
    branch("staging");
    await site.delivered();
    expect(folders()).toEqual([folderOf("feature/x"), "staging"]);
  });
});
