/** What a repository's build gets of its history, by the real git and the real Hugo. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Files } from "../../../fakes/git-repository.ts";
import { gitHost, runWithout } from "../harness.ts";
import { pointer, siteFiles } from "../hugo-site.ts";
import { onSites, site } from "../scene.ts";
import { gitconfig } from "./fake-hugo.ts";

onSites({ ownContent: true });

const toml = siteFiles(1)["hugo.toml"];
const range =
  "{{ range .Site.RegularPages }}{{ with .GitInfo }}{{ .Hash }} {{ .AuthorName }}{{ end }} {{ .CodeOwners }};{{ end }}";
const withInfo: Files = { ...siteFiles(1), "hugo.toml": `enableGitInfo = true\n${toml}`, "layouts/index.html": range };
const post = (text: string) => `---\ntitle: A page\n---\n${text}\n`;
const work = async (builder = site.builder) => (await site.delivered(builder)).last;
const repository = () => join(site.places.history, ".git");
const holds = (id: string) => spawnSync("git", ["--git-dir", repository(), "cat-file", "-e", id]).status === 0;
const packs = () => readdirSync(join(repository(), "objects/pack")).filter((name) => name.endsWith(".pack")).length;

test.each(["sha1", "sha256"] as const)("pages have their last commit, by ids of %s", async (format) => {
  const host = await gitHost();
  const pushes = host.repository(`history-${format}`, format);
  const at = { ...site.builder, settings: { ...site.builder.settings, repository: host.url(`history-${format}`) } };
  const first = pushes.push({ ...withInfo, CODEOWNERS: "* @owner\n", "content/ä.md": post("a") });
  const mailmap = "Mapped <writer@example.net>\n";
  const second = pushes.push({ ".mailmap": mailmap, "content/b.md": post("b") });
  expect((await work(at)).result).toBe("published");
  // The unit's git quotes no name, and Hugo unquotes none.
  expect(site.page()).toContain(`${first} Mapped [@owner];`);
  expect(site.page()).toContain(`${second} Mapped [@owner];`);
  const third = pushes.push({ "content/b.md": post("c") });
  await work(at);
  expect(site.page()).toContain(`${third} Mapped`);
  expect([holds(first), packs()]).toEqual([true, 2]);
  site.request("again");
  await site.work(at);
  expect(packs()).toBe(2);
  const objects = join(repository(), "objects/pack");
  for (let i = readdirSync(objects).length; i < 100; i += 1) writeFileSync(join(objects, `${i}`), "");
  pushes.push({ "content/b.md": post("d") });
  await work(at);
  expect([holds(first), packs()]).toEqual([true, 1]);
  for (const name of readdirSync(objects)) if (name.endsWith(".pack")) truncateSync(join(objects, name));
  pushes.push({ "content/b.md": post("e") });
  expect([(await work(at)).result, (await work(at)).result]).toEqual(["failed", "published"]);
  pushes.push({ "hugo.toml": toml! });
  expect((await work(at)).result).toBe("published");
  expect(readdirSync(repository())).toEqual([]);
  pushes.push({ "hugo.toml": withInfo["hugo.toml"]!, "static/a.png": pointer });
  expect((await work(at)).result).toBe("rejected");
  expect(existsSync(site.places.history)).toBe(false);
});

test("a build gets no content of a former commit and nothing that a forced push removed, and would without two parts", async () => {
  const secret = site.repository.push({ ...withInfo, "static/key.txt": "secret", "content/b.md": post("b") });
  const blob = site.repository.git("rev-parse", `${secret}:static/key.txt`);
  const kept = site.repository.push({ "static/key.txt": null });
  await work();
  expect([secret, kept, blob].map(holds)).toEqual([true, true, false]);
  const forced = site.repository.rewrite({ ...withInfo, "content/b.md": post("b") });
  await work();
  expect([secret, kept, forced].map(holds)).toEqual([false, false, true]);

  site.repository.point(kept);
  rmSync(site.places.history, { recursive: true });
  site.deliver();
  await runWithout(site, [["build/history.ts", '"--filter=blob:none", ', ""]]);
  expect(holds(blob)).toBe(true);
  site.repository.point(forced);
  site.deliver();
  await runWithout(site, [
    ["build/history.ts", "if (!grows)", "if (!packs)"],
    ["build/history.ts", "...(grows ? []", "...(packs ? []"],
  ]);
  expect([secret, forced].map(holds)).toEqual([true, true]);
});

test("the unit's git takes no folder of a commit for a repository, and would run what its configuration names", async () => {
  const [docs, ran] = ["docs", "ran"].map((name) => join(site.folder, name)) as [string, string];
  const run = (args: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
    spawnSync("git", ["-C", docs, ...args], { env, encoding: "utf8" });
  mkdirSync(docs);
  run(["init", "--quiet", "--bare"]);
  writeFileSync(join(docs, "HEAD"), "1".repeat(40));
  // git fetches what a partial clone lacks.
  const remote = `[remote "origin"]\npromisor = true\nurl = ext::touch ${ran}\n[protocol "ext"]\nallow = always\n`;
  const partial = "[core]\nrepositoryFormatVersion = 1\n[extensions]\npartialClone = origin\n";
  writeFileSync(join(docs, "config"), partial + remote, { flag: "a" });
  const text = readFileSync(gitconfig, "utf8").replace("/source", docs);
  const looked = (text: string) => {
    writeFileSync(join(site.folder, "gitconfig"), text);
    const env = { PATH: process.env.PATH, HOME: "/nonexistent", GIT_CONFIG_SYSTEM: join(site.folder, "gitconfig") };
    return run(["log", "--name-only"], env).stderr;
  };
  expect(looked(text)).toContain("cannot use bare repository");
  expect(existsSync(ran)).toBe(false);
  looked(text.replace("bareRepository = explicit", ""));
  expect(existsSync(ran)).toBe(true);
});
