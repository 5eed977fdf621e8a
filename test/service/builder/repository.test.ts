/** What the builder fetches, and what of it is used. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { armoured } from "../../../service/builder/git.ts";
import { changes } from "../../../service/builder/repository.ts";
import type { GitHost } from "../../fakes/git-host.ts";
import { type Bench, bundledBuilder, finish, gitHost, onCopies, start } from "./harness.ts";
import { says, siteFiles } from "./hugo-site.ts";

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

  test("a push to another branch builds nothing", async () => {
    const { head } = published();
    site.repository.push(siteFiles(2), { branch: "draft" });
    site.deliver();
    expect((await site.work()).last).toMatchObject({
      result: "nothing",
      reason: `the head ${head?.slice(0, 12)} is published already`,
    });
    expect(site.page()).toContain(says(1));
  });

  test("a moved file counts by its former path", async () => {
    published();
    site.repository.push({ "static/logo.svg": null, "docs/logo.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>\n' });
    site.deliver();
    expect((await site.work()).last.reason).toBe("changed: static/logo.svg");
  });

  test("a rewritten history is built, whatever it changes", async () => {
    const { head } = published();
    site.repository.rewrite({ ...siteFiles(1), "README.md": "another root" });
    site.deliver();
    expect((await site.work()).last).toMatchObject({
      result: "published",
      reason: `the history was rewritten: ${head?.slice(0, 12)} is no ancestor of the head`,
    });
  });

  test("a head is built when the published commit is missing in the clone", async () => {
    const { head } = published();
    rmSync(site.places.clone, { recursive: true });
    site.repository.rewrite({ ...siteFiles(2), "static/app.1.css": "" });
    site.deliver();
    expect((await site.work()).last).toMatchObject({
      result: "published",
      reason: `the published commit ${head?.slice(0, 12)} is not in the clone`,
    });
  });

  test("the changes of an unknown commit are unknown", async () => {
    const { head } = published();
    const { builder, places } = site;
    const at = { settings: builder.settings, places, git: armoured(builder) };
    expect(await changes(at, head!, "f".repeat(40))).toHaveProperty("unknown");
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

  test("without that protection a file of the host is published", async () => {
    const bundle = await bundledBuilder(
      site.folder,
      ["git.ts", '"core.symlinks": "false"', '"core.symlinks": "true"'],
      ["repository.ts", "for (const link of links) remove(join(places.clone, link));", ""],
    );
    site.repository.push({ "static/passwd.txt": { link: "/etc/passwd" } });
    site.deliver();
    expect((await finish(site, start(site, bundle))).last.result).toBe("published");
    expect(site.page("passwd.txt")).toContain("root:");
  });

  test("submodules are fetched only if site.submodules is true, without links and never from a local path", async () => {
    published();
    const theme = host.repository(`theme-${Date.now()}`);
    const commit = theme.push({ "static/theme.css": "a{}", "static/shadow": { link: "/etc/passwd" } });
    const name = theme.folder
      .split("/")
      .at(-1)!
      .replace(/\.git$/, "");
    const modules = (url: string) => `[submodule "themes/t"]\n\tpath = themes/t\n\turl = ${url}\n`;
    site.repository.push({
      ".gitmodules": modules(host.url(name)),
      "themes/t": { submodule: commit },
      "hugo.toml": `${siteFiles(1)["hugo.toml"]}theme = "t"\n`,
    });
    site.deliver();
    expect((await site.work()).last).toMatchObject({ result: "published" });
    expect(site.published()).not.toContain("theme.css");

    const withSubmodules = { ...site.builder, settings: { ...site.builder.settings, submodules: true } };
    site.request("content");
    expect((await site.work(withSubmodules)).last).toMatchObject({
      result: "published",
      warnings: ["symbolic links are left out: themes/t/static/shadow"],
    });
    expect(site.published()).toContain("theme.css");
    expect(site.published()).not.toContain("shadow");

    site.repository.push({
      ".gitmodules": modules(theme.folder).replaceAll("themes/t", "themes/u"),
      "themes/t": null,
      "themes/u": { submodule: commit },
      "hugo.toml": `${siteFiles(1)["hugo.toml"]}theme = "u"\n`,
    });
    site.deliver();
    const { last } = await site.work(withSubmodules);
    expect(last.result).toBe("failed");
    expect(last.reason).toMatch(/^a submodule: .*transport 'file' not allowed/);
    // Without that protection a push reads every repository that the builder can read.
    const bundle = await bundledBuilder(site.folder, [
      "git.ts",
      'GIT_ALLOW_PROTOCOL: "https:ssh"',
      'GIT_ALLOW_PROTOCOL: "https:ssh:file"',
    ]);
    const open = finish(site, start({ ...site, builder: withSubmodules }, bundle));
    expect((await open).last.result).toBe("published");
  });

  test("git runs no hook and no filter of the repository", async () => {
    published();
    const mark = join(site.folder, "ran");
    for (const hook of ["post-checkout", "reference-transaction", "post-index-change"]) {
      mkdirSync(join(site.places.clone, ".git/hooks"), { recursive: true });
      writeFileSync(join(site.places.clone, ".git/hooks", hook), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 });
    }
    site.repository.push({
      ...siteFiles(2),
      ".gitattributes": "*.css filter=evil\n",
      "deploy.sh": { program: `#!/bin/sh\ntouch ${mark}\n` },
    });
    site.deliver();
    expect((await site.work()).last.result).toBe("published");
    expect(existsSync(mark)).toBe(false);
  });
});
