/** What a release is made of and how much room it takes, without git and Hugo. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { lookAt } from "../../../../service/builder/build/gate.ts";
import { walk } from "../../../../service/builder/files.ts";
import { copy } from "../../../../service/builder/release/hashed.ts";
import { makeRelease } from "../../../../service/builder/release/make-release.ts";
import {
  currentRelease,
  differences,
  filesOf,
  intact,
  isSameBuild,
  prune,
  releases,
  staying,
  switchTo,
} from "../../../../service/builder/release/releases.ts";
import { onPlaces, places } from "../scene.ts";

onPlaces();
/** Of the last release. */
let warnings: string[];
let commits = 0;
const looked = () => lookAt(places.out, 1 << 30);

async function make({ found } = looked(), of = places, kept: readonly string[] = []) {
  warnings = [];
  const commit = (++commits).toString(16).padStart(40, "0");
  const same = await intact(of, currentRelease(of));
  return makeRelease({ assets: ["css", "png"] }, of, { commit, from: { folder: "" }, warnings }, found, same, kept);
}

/** Publishes these files and no others. Returns the release's id. */
async function release(files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  rmSync(places.out, { recursive: true, force: true });
  for (const [path, text] of Object.entries({ "index.html": "home", ...files })) {
    mkdirSync(dirname(join(places.out, path)), { recursive: true });
    writeFileSync(join(places.out, path), text);
  }
  const { release } = await make();
  const stay = staying(places, release);
  switchTo(places, release);
  prune(places, stay);
  return release;
}

const at = (id: string, path: string) => join(places.release(id), path);
const served = () => walk(realpathSync(places.current)).files;
const text = (path: string) => readFileSync(join(places.current, path), "utf8");
/** As a person with the rights of root may do. */
const open = (id: string) => spawnSync("chmod", ["-R", "u+w", places.release(id)]);

test("an unchanged file is one file on the disk, and one that differs in its last byte is a copy", async () => {
  const large = Buffer.alloc(2 << 20, "a");
  const one = await release({ "same.html": "same", "same.png": large, "other.png": large, "grown.png": large });
  const [changed, grown] = [Buffer.from(large), Buffer.concat([large, Buffer.from("b")])];
  changed[changed.length - 1] = 0x62;
  const two = await release({ "same.html": "same", "same.png": large, "other.png": changed, "grown.png": grown });
  const isShared = (path: string) => lstatSync(at(two, path)).ino === lstatSync(at(one, path)).ino;
  expect(["same.html", "same.png", "other.png", "grown.png"].map(isShared)).toEqual([true, true, false, false]);
  expect(readFileSync(at(two, "other.png")).equals(changed)).toBe(true);
  expect(readFileSync(at(one, "other.png")).equals(large)).toBe(true);
  expect(statSync(at(two, "grown.png")).size).toBe(grown.length);
  const sha256 = createHash("sha256").update(changed).digest("hex");
  expect(filesOf(places, two).get("other.png")).toEqual({ size: changed.length, sha256, built: two });
  expect(await differences(places, currentRelease(places)!)).toEqual([]);
});

test("a file that Hugo still writes changes no release, as it was copied and not moved", async () => {
  const id = await release({ "a.html": "built" });
  appendFileSync(join(places.out, "a.html"), " and still written to");
  expect(readFileSync(at(id, "a.html"), "utf8")).toBe("built");
});

test.each([
  ["longer", "built and more"],
  ["another", "other"],
])("a file that is %s than the gate has seen is in no release", async (_, text) => {
  mkdirSync(places.out);
  writeFileSync(join(places.out, "a.html"), "built");
  const before = looked();
  writeFileSync(join(places.out, "a.html"), text);
  await expect(make(before)).rejects.toThrow(/a\.html was changed while the site was published\. Push again\.$/);
  expect(readdirSync(places.releases)).toEqual([]);
});

test("files and folders of a release are read-only, those that are carried along too, and may be called __proto__", async () => {
  await release({ "former/deep/a.css": "a" });
  const id = await release({ "__proto__/constructor.css": "x" });
  const { folders, files } = walk(places.release(id));
  const modes = (paths: readonly string[]) => paths.map((path) => statSync(at(id, path)).mode & 0o777);
  expect(folders).toEqual(["__proto__", "former", "former/deep"]);
  expect(modes(["", ...folders])).toEqual([0o555, 0o555, 0o555, 0o555]);
  expect(files).toEqual(["__proto__/constructor.css", "former/deep/a.css", "index.html"]);
  expect(modes(files)).toEqual([0o444, 0o444, 0o444]);
  expect(await differences(places, currentRelease(places)!)).toEqual([]);
});

test("a folder in place of a file is no part of a release", () => {
  const [folder, to] = [join(places.site, "folder"), join(places.site, "to")];
  mkdirSync(folder);
  expect(() => copy(folder, to, { size: 0, sha256: "" })).toThrow(`${folder} is no longer a file. Push again.`);
});

test("an asset stays as long as a release that built it is kept, and a page does not", async () => {
  const first = await release({ "app.1.css": "1", "about.html": "about" });
  for (let i = 2; i <= 5; i += 1) await release({ [`app.${i}.css`]: `${i}` });
  expect(served()).toEqual(["app.1.css", "app.2.css", "app.3.css", "app.4.css", "app.5.css", "index.html"]);
  expect(releases(places)).toHaveLength(5);
  // The first release is removed, and with it what only it had built.
  await release({ "app.6.css": "6" });
  expect(served()).toEqual(["app.2.css", "app.3.css", "app.4.css", "app.5.css", "app.6.css", "index.html"]);
  expect([readdirSync(places.releases).length, readdirSync(places.manifests).length]).toEqual([5, 5]);
  expect(releases(places)).not.toContain(first);
});

test("a built file is served in place of a carried asset of its path", async () => {
  await release({ "a.css": "old", "b/c.css": "old", "d.css": "old" });
  await release({ "a.css": "new", b: "a file", "d.css/e.html": "a folder" });
  expect(served()).toEqual(["a.css", "b", "d.css/e.html", "index.html"]);
  expect(text("a.css")).toBe("new");
});

test("an asset that was changed or removed on the disk is not carried along, and others are", async () => {
  const one = await release({ "a.css": "a", "gone.css": "g", "b.css": "b" });
  open(one);
  writeFileSync(at(one, "a.css"), "evil");
  rmSync(at(one, "gone.css"));
  await release({});
  expect(served()).toEqual(["b.css", "index.html"]);
  expect(warnings).toEqual([`files changed on the disk are not carried along: ${one}/a.css, ${one}/gone.css`]);
});

test("no more assets are carried along than a release may have files, and previews that are more reject a build", async () => {
  const one = await release({});
  const manifest = JSON.parse(readFileSync(places.manifest(one), "utf8"));
  manifest.files = Array.from({ length: 2_100 }, (_, i) => [`draft/${"x".repeat(3_994)}${i}.css`, 1, ""]);
  writeFileSync(places.manifest(one), JSON.stringify(manifest));
  await release({ "own.css": "" });
  expect(warnings).toContainEqual(expect.stringMatching(/^8 assets of former releases are not carried along/));
  switchTo(places, one);
  await expect(make(looked(), places, ["draft"])).rejects.toThrow("all previews together have more than 100,000 files");
});

test.each<[string, (id: string) => unknown, string]>([
  ["a page written over", (id) => writeFileSync(at(id, "a/b.html"), "evil"), "a/b.html"],
  ["a file added", (id) => writeFileSync(at(id, "a/new.php"), ""), "a/new.php"],
  ["a file removed", (id) => rmSync(at(id, "a/b.html")), "a/b.html"],
  [
    "a new file beside a changed one",
    (id) => spawnSync("tee", [at(id, "a/b.html"), at(id, "b.php")]),
    "a/b.html b.php",
  ],
  ["a link added", (id) => symlinkSync("/etc", at(id, "a/etc")), "a/etc"],
  ["a link in its place", (id) => spawnSync("ln", ["-sf", "/etc/passwd", at(id, "c.css")]), "c.css"],
  ["a missing release folder", (id) => rmSync(places.release(id), { recursive: true }), "release"],
  [
    "a file of the same size and time",
    (id) => {
      const { atime, mtime } = statSync(at(id, "c.css"));
      writeFileSync(at(id, "c.css"), "eee");
      utimesSync(at(id, "c.css"), atime, mtime);
    },
    "c.css",
  ],
])("the builder notices %s in a release on the disk, and does not link to it", async (_name, tamper, seen) => {
  const files = { "a/b.html": "b", "c.css": "ccc" };
  const id = await release(files);
  open(id);
  tamper(id);
  expect(await differences(places, id)).toEqual(seen === "release" ? [id] : seen.split(" "));
  await release(files);
  expect([text("a/b.html"), text("c.css")]).toEqual(["b", "ccc"]);
  expect(lstatSync(join(places.current, "c.css")).isFile()).toBe(true);
  expect(served()).toEqual(["a/b.html", "c.css", "index.html"]);
});

test("a release of which a file is missing, or that the disk does not take, is an error and leaves no folder", async () => {
  mkdirSync(places.out);
  writeFileSync(join(places.out, "missing.html"), "");
  const before = looked();
  rmSync(join(places.out, "missing.html"));
  await expect(make(before)).rejects.toThrow("ENOENT");
  const elsewhere = make(looked(), { ...places, site: join(places.site, "missing") });
  await expect(elsewhere).rejects.toThrow(
    /^the disk did not take what was written: sync: .*: No such file or directory$/,
  );
  expect(readdirSync(places.releases)).toEqual([]);
});

const manifest = (id: string, files: Record<string, [sha256: string, built: string]>) => ({
  release: id,
  files: new Map(Object.entries(files).map(([path, [sha256, built]]) => [path, { size: 1, sha256, built }])),
});
const published = manifest("two", { a: ["1", "two"], b: ["2", "two"], old: ["9", "one"] });

test.each<[string, Parameters<typeof manifest>[1], boolean]>([
  ["whatever they carry along", { a: ["1", "three"], b: ["2", "three"], other: ["8", "two"] }, true],
  ["unless one file differs", { a: ["1", "three"], b: ["3", "three"] }, false],
  ["unless one has fewer", { a: ["1", "three"] }, false],
  ["unless one has more", { a: ["1", "three"], b: ["2", "three"], c: ["3", "three"] }, false],
  ["unless one has another name", { a: ["1", "three"], c: ["2", "three"] }, false],
  ["unless a file is only carried along", { a: ["1", "three"], b: ["2", "two"] }, false],
])("two releases are the same build %s", (_, files, same) => {
  expect(isSameBuild(manifest("three", files), published)).toBe(same);
});
