/** Faults of the remote and of the clone: how the reason reports them, and what happens next. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { take } from "../../../../service/builder/run/markers.ts";
import { runOnce } from "../../../../service/builder/run/run.ts";
import { fetchHead } from "../../../../service/builder/source/repository.ts";
import { contextOf, gitHost, runWithout, type Without, withCommand } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

onCopies(1);

test("the reason reports what the git host answers, an unknown name and a deleted branch", async () => {
  const { faults } = await gitHost();
  for (const [status, reason] of [
    [404, /is not there\. Correct hooks\[\]\.repository/],
    [401, /requires a login .* or use an SSH address with a deploy key/],
    [500, /localhost closed the connection/],
  ] as const) {
    faults.status = status;
    await expect(fetchHead(contextOf(site)), `${status}`).rejects.toThrow(reason);
  }
  delete faults.status;
  const settings = { ...site.builder.settings, repository: "https://git.invalid/site.git" };
  const unknown = contextOf({ ...site, builder: { ...site.builder, settings } });
  await expect(fetchHead(unknown)).rejects.toThrow("git.invalid cannot be resolved");
  site.repository.git("branch", "--move", "main", "other");
  await expect(fetchHead(contextOf(site))).rejects.toThrow("has no branch main. Push it");
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
});

test("a repository's names that are not UTF-8 stop a build and no later one, and would stop the builder for good", async () => {
  const entry = (path: string) => `M 100644 inline "${path}"\ndata 1\nx\n`;
  const input = `commit refs/heads/main\ncommitter A <a@example.net> 1 +0000\ndata 1\nx\nfrom ${site.repository.head()}\n`;
  execFileSync("git", ["--git-dir", site.repository.folder, "fast-import", "--quiet", "--force"], {
    input: `${input}${entry("\\377")}${entry("static/\\377.txt")}\n`,
  });
  const reason = expect.stringContaining("Hugo wrote a name that is not UTF-8");
  expect((await site.delivered()).last).toMatchObject({ result: "rejected", reason });
  expect(readdirSync(site.places.clone)).toEqual([".git"]);
  // As text, such a name is another one.
  const names: Without = ["files.ts", 'eachEntry(folder, "buffer" as BufferEncoding)', "eachEntry(`${folder}`)"];
  await runWithout(site, [names]);
  await expect(runWithout(site, [names])).rejects.toThrow(/pushgate-builder: .*ENOTEMPTY/);
});
