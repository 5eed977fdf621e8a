/** A folder that was served before pushgate: the builder compares it, then it is the first release, and each lost file is named. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { walk } from "../../../../service/builder/files.ts";
import { readManifest } from "../../../../service/builder/release/releases.ts";
import { type Bench, bench, cannotBuild, closeGitHost } from "../harness.ts";
import { says } from "../hugo-site.ts";

let site: Bench;
beforeEach(async ({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  site = await bench({ keep: ["uploads"] });
  const { webRoot } = site.builder.settings;
  mkdirSync(join(webRoot, "uploads"), { recursive: true });
  writeFileSync(join(webRoot, "index.html"), "as before");
  writeFileSync(join(webRoot, "uploads/report.pdf"), "written by its owner");
});
/** As the site's layer does it on the host, which skips kept paths. */
const list = (): void => {
  const { webRoot } = site.builder.settings;
  const { files, links } = walk(webRoot, (path) => path === "uploads");
  mkdirSync(site.places.work, { recursive: true });
  writeFileSync(site.places.listing, [...files, ...links].map((path) => `${path}\0`).join(""));
};
afterEach(() => site?.remove());
afterAll(closeGitHost);

test("an adoption request names each file that would be lost, and neither publishes nor changes anything", async () => {
  const { webRoot } = site.builder.settings;
  writeFileSync(join(webRoot, "google123.html"), "proof");
  symlinkSync("index.html", join(webRoot, "home.html"));
  list();
  // find prints them in the order of the folder.
  const { listing } = site.places;
  writeFileSync(listing, `${readFileSync(listing, "utf8").split("\0").reverse().join("\0")}\0`);
  site.adopt();
  const status = await site.work();
  expect(status.adoption).toEqual({
    files: ["google123.html", "home.html"],
    more: 0,
  });
  expect(status).toMatchObject({ deployed: null, last: { result: "nothing", trigger: ["adopt"] }, releases: [] });
  expect(existsSync(site.places.current)).toBe(false);
  expect(readFileSync(join(webRoot, "index.html"), "utf8")).toBe("as before");
});

test("an adoption names 100 lost files and counts the others", async () => {
  for (let i = 0; i < 130; i += 1) writeFileSync(join(site.builder.settings.webRoot, `old-${i}.html`), "");
  list();
  site.adopt();
  const { adoption, last } = await site.work();
  expect(adoption?.files).toHaveLength(100);
  expect(adoption?.more).toBe(30);
  const { webRoot } = site.builder.settings;
  expect(last.reason).toBe(`${webRoot} was compared with a build: 130 files are neither built nor kept`);
});

test("the builder publishes a build after root has made the folder the first release, and can roll back to the folder", async () => {
  const { webRoot } = site.builder.settings;
  list();
  site.adopt();
  expect((await site.work()).adoption).toMatchObject({ files: [], more: 0 });
  // As the site's layer does it on the host.
  rmSync(site.places.listing);
  cpSync(webRoot, site.places.release("000001-adopted"), { recursive: true });
  symlinkSync("index.html", join(site.places.release("000001-adopted"), "home.html"));
  cpSync(join(webRoot, "uploads"), join(site.places.kept, "uploads"), { recursive: true });
  symlinkSync("releases/000001-adopted", site.places.current);
  rmSync(webRoot, { recursive: true });
  symlinkSync(site.places.current, webRoot);

  site.tick();
  const status = await site.work();
  expect(status.last).toMatchObject({ result: "published", reason: "000001-adopted was built from no commit" });
  expect(site.page()).toContain(says(1));
  // What a rollback without a name goes back to is the folder, not the build that it was compared with.
  expect(status.releases.map(({ id }) => id)).toEqual([status.deployed!.release, "000001-adopted"]);
  expect(readFileSync(join(webRoot, "uploads/report.pdf"), "utf8")).toBe("written by its owner");
  const manifest = readManifest(site.places, "000001-adopted")!;
  expect(manifest.commit).toBeNull();
  expect([...manifest.files.keys()]).toEqual(["index.html", "uploads/report.pdf"]);
  expect(manifest.links).toEqual(new Map([["home.html", "index.html"]]));

  // The rollback.
  site.rollback("000001-adopted");
  expect((await site.work()).last.result).toBe("rolled back");
  expect(site.page()).toBe("as before");
});

test("an adoption request without a list of files changes nothing", async () => {
  site.adopt();
  expect((await site.work()).last).toMatchObject({
    result: "nothing",
    reason: expect.stringContaining("are not listed"),
  });
});
