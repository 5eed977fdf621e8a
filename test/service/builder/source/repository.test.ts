/** What the builder fetches, and what of it is used. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { checkOut, fetchHead } from "../../../../service/builder/source/repository.ts";
import type { GitHost } from "../../../fakes/git-host.ts";
import { type Bench, bundledBuilder, contextOf, finish, gitHost, onCopies, start } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";

let site: Bench;
let host: GitHost;
onCopies(1, (copy) => {
  site = copy;
});
beforeEach(async () => {
  host = await gitHost();
});

/** Revision 1 is published. */
const published = () => site.status();

describe("a push", () => {
  test("a change of README.md builds nothing, and the next push is compared with the published commit", async () => {
    const first = published();
    const readme = site.repository.push({ "README.md": "better" });
    site.deliver();
    expect(await site.work()).toMatchObject({
      head: readme,
      deployed: { commit: first.head },
      last: { result: "nothing", reason: `${readme.slice(0, 12)} changes only README.md: nothing of site.paths` },
    });
    site.repository.push({ "static/robots.txt": "" });
    site.repository.push({ LICENSE: "" });
    site.deliver();
    expect((await site.work()).last).toMatchObject({ result: "published", reason: "changed: static/robots.txt" });
  });

  test("the site stays when the branch was deleted, and the reason names the branch", async () => {
    published();
    site.repository.push({}, { branch: "other" });
    site.repository.remove("refs/heads/main");
    site.tick();
    const { last } = await site.work();
    expect(last).toMatchObject({ result: "failed", reason: expect.stringContaining("has no branch main. Push it") });
    expect(site.page()).toContain(says(1));
  });
});

describe("a hostile repository", () => {
  test("the builder rejects a commit that tracks content, and the content stays", async () => {
    published();
    site.repository.push({ "content/post/0.md": "mine now", "layouts/x.html": "" });
    site.deliver();
    expect((await site.work()).last).toMatchObject({
      result: "rejected",
      reason: expect.stringMatching(
        /tracks content\/post\/0\.md, but the content is in .* Run git rm -r --cached content/,
      ),
    });
    expect(readFileSync(join(site.content, "post/0.md"), "utf8")).toContain("Text of page 0.");
    site.repository.push({ "content/post/0.md": null, "content/.gitkeep": "", "static/x": "" });
    site.deliver();
    expect((await site.work()).last.result).toBe("published");
  });

  test("so is one that tracks a file named content, or a link below it", async () => {
    for (const [files, path] of [
      [{ content: "text" }, "content"],
      [{ content: null, "content/x.md": { link: "/etc/passwd" } }, "content/x.md"],
    ] as const) {
      site.repository.push(files);
      const at = contextOf(site);
      await expect(checkOut(at, await fetchHead(at))).rejects.toThrow(`tracks ${path}, but the content is in `);
    }
  });

  const links = {
    "static/passwd.txt": { link: "/etc/passwd" },
    "static/etc": { link: "../../../../../../../../../../../../etc" },
    content: { link: "/srv/content" },
  };

  test("the builder leaves tracked links out and names them", async () => {
    site.repository.push(links);
    site.deliver();
    const { last } = await site.work();
    expect(last.result).toBe("published");
    expect(last.warnings).toEqual(["symbolic links are left out: content, static/etc, static/passwd.txt"]);
    expect(site.published().filter((path) => /etc|passwd/.test(path))).toEqual([]);
  });

  test("without their removal the text of a link is published", async () => {
    const bundle = await bundledBuilder(site.folder, [
      "repository.ts",
      "for (const link of links) remove(join(places.clone, link));",
      "",
    ]);
    site.repository.push({ "static/passwd.txt": { link: "/etc/passwd" } });
    site.deliver();
    expect((await finish(site, start(site, bundle))).last.result).toBe("published");
    expect(site.page("passwd.txt")).toBe("/etc/passwd");
  });
});

describe("submodules", () => {
  const names = (path: string, url: string) => `[submodule "t"]\n\tpath = ${path}\n\turl = ${url}\n`;
  const using = (theme: string) => `${siteFiles(1)["hugo.toml"]}theme = "${theme}"\n`;
  let theme: { readonly name: string; readonly folder: string; readonly commit: string };
  beforeEach(() => {
    const name = `theme-${Date.now()}`;
    const made = host.repository(name);
    const commit = made.push({ "static/theme.css": "a{}", "static/shadow": { link: "/etc/passwd" } });
    theme = { name, folder: made.folder, commit };
  });
  const push = (url: string) =>
    site.repository.push({
      ".gitmodules": names("themes/t", url),
      "themes/t": { submodule: theme.commit },
      "hugo.toml": using("t"),
    });
  const pushed = async (url: string, settings: Partial<Bench["builder"]["settings"]> = {}) => {
    push(url);
    site.deliver();
    return (await site.work({ ...site.builder, settings: { ...site.builder.settings, ...settings } })).last;
  };

  test("those that .gitmodules names are fetched without their links, and leave when it no longer does", async () => {
    expect(await pushed(host.url(theme.name))).toMatchObject({
      result: "published",
      warnings: ["symbolic links are left out: themes/t/static/shadow"],
    });
    expect(site.published()).toContain("theme.css");
    expect(site.published()).not.toContain("shadow");
    site.repository.push({ ".gitmodules": null, "themes/t": null, "hugo.toml": siteFiles(1)["hugo.toml"]! });
    site.deliver();
    expect((await site.work()).last.result).toBe("published");
    expect(existsSync(join(site.places.clone, "themes/t"))).toBe(false);
  });

  test("an address relative to the repository's leads to the same git host", async () => {
    expect(await pushed(`../${theme.name}.git`)).toMatchObject({ result: "published" });
    expect(site.published()).toContain("theme.css");
  });

  test("none is fetched if site.submodules is false", async () => {
    expect(await pushed(host.url(theme.name), { submodules: false })).toMatchObject({ result: "published" });
    expect(site.published()).not.toContain("theme.css");
  });

  test.each<[string, () => string, RegExp]>([
    [
      "a local path",
      () => theme.folder,
      /^a submodule: \/.* is neither https nor SSH\. .*transport 'file' not allowed/,
    ],
    [
      "an unknown name",
      () => host.url("unknown"),
      /^a submodule: https:\/\/localhost:\d+\/unknown\.git is not there\. Correct its address in \.gitmodules/,
    ],
    [
      "an address over SSH, for which the site has no deploy key",
      () => "git@git.invalid:theme.git",
      /^a submodule: git@git\.invalid:theme\.git is read over SSH, .* Use its https:\/\/ address in \.gitmodules/,
    ],
  ])("the reason names %s, and how to do without submodules", async (_, url, reason) => {
    push(url());
    const at = contextOf(site);
    const fault = checkOut(at, await fetchHead(at));
    await expect(fault).rejects.toThrow(reason);
    await expect(fault).rejects.toThrow(/Without submodules: hooks\[\]\.site\.submodules: false\.$/);
  });
});
