/** What a release is made of and how much room it takes, without git and Hugo. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { walk } from "../../../../service/builder/files.ts";
import type { Places } from "../../../../service/builder/places.ts";
import { linkOrCopy } from "../../../../service/builder/release/link-or-copy.ts";
import { makeRelease } from "../../../../service/builder/release/make-release.ts";
import {
  deployed,
  differences,
  isSameBuild,
  type Manifest,
  prune,
  releases,
  removeHalf,
  sizeOf,
  staying,
  switchTo,
} from "../../../../service/builder/release/releases.ts";
import { placesIn } from "../harness.ts";

let folder: string;
let places: Places;
let warnings: string[];
beforeEach(() => {
  // 25,000 small files, made and removed: in memory where possible.
  folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "pushgate-release-"));
  places = placesIn(folder);
  warnings = [];
});
afterEach(() => {
  spawnSync("chmod", ["-R", "u+w", folder]);
  rmSync(folder, { recursive: true });
});

const settings = { assets: ["css", "png"] };
const from = { folder: "", content: ["content"] };
let commits = 0;

/** Publishes these files and no others. Returns the release's id. */
async function release(files: Readonly<Record<string, string | Buffer>>): Promise<string> {
  rmSync(places.out, { recursive: true, force: true });
  for (const [path, text] of Object.entries({ "index.html": "home", ...files })) {
    mkdirSync(dirname(join(places.out, path)), { recursive: true });
    writeFileSync(join(places.out, path), text);
  }
  commits += 1;
  const commit = commits.toString(16).padStart(40, "0");
  const found = walk(places.out);
  const manifest = await makeRelease(settings, places, { commit, from }, found, warnings);
  const stay = staying(places, manifest.release);
  switchTo(places, manifest.release);
  prune(places, stay);
  return manifest.release;
}

const at = (id: string, path: string) => join(places.release(id), path);
const inode = (path: string) => lstatSync(path).ino;
const served = () => walk(realpathSync(places.current)).files;

describe("files", () => {
  test("an unchanged file is one file on the disk, a changed one is a copy", async () => {
    const large = Buffer.alloc(3 << 20, "a");
    const one = await release({ "same.html": "same", "other.html": "one", "large.png": large, "grown.png": large });
    const two = await release({
      "same.html": "same",
      "other.html": "two",
      "large.png": large,
      "grown.png": Buffer.concat([large, Buffer.from("b")]),
    });
    expect(inode(at(two, "same.html"))).toBe(inode(at(one, "same.html")));
    expect(inode(at(two, "large.png"))).toBe(inode(at(one, "large.png")));
    expect(inode(at(two, "other.html"))).not.toBe(inode(at(one, "other.html")));
    expect(readFileSync(at(one, "other.html"), "utf8")).toBe("one");
    expect(readFileSync(at(two, "other.html"), "utf8")).toBe("two");
    expect(statSync(at(two, "grown.png")).size).toBe(large.length + 1);
    expect(differences(places, deployed(places)!)).toEqual([]);
  });

  test("a manifest has the size and the hash of each file", async () => {
    const text = "a".repeat(3 << 20);
    await release({ "large.txt": text });
    expect(deployed(places)!.files.get("large.txt")).toMatchObject({
      size: 3 << 20,
      sha256: createHash("sha256").update(text).digest("hex"),
    });
  });

  test("a large file that differs only in its last byte is copied", async () => {
    const one = await release({ "large.png": Buffer.alloc(2 << 20, "a") });
    const changed = Buffer.alloc(2 << 20, "a");
    changed[changed.length - 1] = 0x62;
    const two = await release({ "large.png": changed });
    expect(readFileSync(at(two, "large.png")).equals(changed)).toBe(true);
    expect(readFileSync(at(one, "large.png")).includes("b")).toBe(false);
    expect(differences(places, deployed(places)!)).toEqual([]);
  });

  test("1,000 pages that are published again take room only for changed pages", async () => {
    const pages = Object.fromEntries(
      Array.from({ length: 1_000 }, (_, i) => [`${i % 50}/${i}.html`, `page ${i} ${"x".repeat(500)}`]),
    );
    const used = () => Number(spawnSync("du", ["-sk", places.releases]).stdout.toString().split("\t")[0]);
    await release(pages);
    const before = used();
    await release({ ...pages, "0/0.html": "changed" });
    // 4 MB of blocks; 50 folders and a page are 0.3.
    expect(before).toBeGreaterThan(4_000);
    expect(used() - before).toBeLessThan(500);
  });

  test("a file that Hugo still writes changes no release, as it was copied and not moved", async () => {
    mkdirSync(places.out);
    const id = await release({ "a.html": "built" });
    appendFileSync(join(places.out, "a.html"), " and still written to");
    expect(readFileSync(at(id, "a.html"), "utf8")).toBe("built");
  });

  test("files and folders of a release are read-only", async () => {
    const id = await release({ "a/b.css": "x" });
    for (const path of ["", "a"]) expect(statSync(at(id, path)).mode & 0o777).toBe(0o555);
    for (const path of ["index.html", "a/b.css"]) expect(statSync(at(id, path)).mode & 0o777).toBe(0o444);
  });

  test("a file may be called __proto__", async () => {
    await release({ "__proto__/constructor.css": "x" });
    expect(differences(places, deployed(places)!)).toEqual([]);
    expect(served()).toContain("__proto__/constructor.css");
  });
});

describe("assets that are carried along", () => {
  test("an asset stays as long as a release that built it is kept, and a page does not", async () => {
    await release({ "app.1.css": "1", "about.html": "about" });
    for (let i = 2; i <= 5; i += 1) await release({ [`app.${i}.css`]: `${i}` });
    expect(served()).toEqual(["app.1.css", "app.2.css", "app.3.css", "app.4.css", "app.5.css", "index.html"]);
    expect(releases(places)).toHaveLength(5);
    // The first release is removed, and with it what only it had built.
    await release({ "app.6.css": "6" });
    expect(served()).toEqual(["app.2.css", "app.3.css", "app.4.css", "app.5.css", "app.6.css", "index.html"]);
    expect(readdirSync(places.releases)).toHaveLength(5);
    expect(readdirSync(places.manifests)).toHaveLength(5);
    expect(differences(places, deployed(places)!)).toEqual([]);
  });

  test("a release after a rollback carries the assets of the rolled-back release", async () => {
    const first = await release({ "app.1.css": "1" });
    for (let i = 2; i <= 5; i += 1) await release({ [`app.${i}.css`]: `${i}` });
    switchTo(places, first);
    await release({ "app.6.css": "6" });
    expect(served()).toContain("app.1.css");
    expect(releases(places)).toContain(first);
  });

  test("a built file is served in place of a carried asset of its path", async () => {
    await release({ "a.css": "old", "b/c.css": "old", "d.css": "old" });
    await release({ "a.css": "new", b: "a file", "d.css/e.html": "a folder" });
    expect(served()).toEqual(["a.css", "b", "d.css/e.html", "index.html"]);
    expect(readFileSync(join(places.current, "a.css"), "utf8")).toBe("new");
  });

  test("an asset that was changed on the disk is not carried along", async () => {
    const one = await release({ "app.1.css": "1" });
    chmodSync(at(one, "app.1.css"), 0o644);
    writeFileSync(at(one, "app.1.css"), "evil");
    await release({ "app.2.css": "2" });
    expect(served()).not.toContain("app.1.css");
    expect(warnings).toEqual([`assets changed on the disk are not carried along: ${one}/app.1.css`]);
  });
});

describe("a release changed on the disk", () => {
  const cases: readonly [string, (id: string) => void, readonly string[]][] = [
    ["a page written over", (id) => writeFileSync(at(id, "a/b.html"), "evil"), ["a/b.html"]],
    ["a file added", (id) => writeFileSync(at(id, "a/new.php"), ""), ["a/new.php"]],
    ["a file removed", (id) => rmSync(at(id, "a/b.html")), ["a/b.html"]],
    ["a link added", (id) => symlinkSync("/etc", at(id, "a/etc")), ["a/etc"]],
    ["a link in its place", (id) => linkAway(at(id, "c.css")), ["c.css"]],
    ["a missing release folder", (id) => rmSync(places.release(id), { recursive: true }), ["release"]],
    ["a file of the same size and time", (id) => swap(at(id, "c.css")), ["c.css"]],
  ];
  const swap = (path: string) => {
    const { atime, mtime, size } = statSync(path);
    writeFileSync(path, "e".repeat(size));
    utimesSync(path, atime, mtime);
  };
  const linkAway = (path: string) => {
    rmSync(path);
    symlinkSync("/etc/passwd", path);
  };
  test.each(cases)("the builder notices %s, and does not link to it", async (_name, tamper, seen) => {
    const id = await release({ "a/b.html": "b", "c.css": "ccc" });
    const manifest = deployed(places)!;
    expect(differences(places, manifest)).toEqual([]);
    spawnSync("chmod", ["-R", "u+w", places.release(id)]);
    tamper(id);
    expect(differences(places, manifest)).toEqual(seen.map((path) => (path === "release" ? id : path)));
    await release({ "a/b.html": "b", "c.css": "ccc" });
    expect(readFileSync(join(places.current, "a/b.html"), "utf8")).toBe("b");
    expect(readFileSync(join(places.current, "c.css"), "utf8")).toBe("ccc");
    expect(lstatSync(join(places.current, "c.css")).isFile()).toBe(true);
    expect(served()).toEqual(["a/b.html", "c.css", "index.html"]);
  });
});

test("a folder in place of a file is no part of a release", () => {
  mkdirSync(join(places.site, "folder"));
  const to = join(places.site, "to");
  expect(() => linkOrCopy(join(places.site, "folder"), to)).toThrow(
    `${places.site}/folder is no longer a file. Push again.`,
  );
});

test("the next start removes half releases, and never the published one", async () => {
  const id = await release({});
  mkdirSync(join(places.release("000009-abc"), "half"), { recursive: true });
  chmodSync(join(places.release("000009-abc"), "half"), 0o555);
  writeFileSync(`${places.manifest("000009-abc")}.new`, "{");
  symlinkSync("nowhere", `${places.current}.new`);
  removeHalf(places);
  expect(readdirSync(places.releases)).toEqual([id]);
  expect(readdirSync(places.manifests)).toEqual([`${id}.json`]);
  expect(existsSync(places.current)).toBe(true);
  rmSync(places.manifest(id));
  removeHalf(places);
  expect(readdirSync(places.releases)).toEqual([id]);
});

test("a name that only looks like a release's does not count for the next number", async () => {
  mkdirSync(join(places.releases, "copy-of-000009-abc"));
  expect(await release({})).toMatch(/^000001-/);
});

test("a manifest that cannot be read keeps no release from being made, and its release has no known size", async () => {
  const [one, broken] = [await release({ "a.css": "a{}" }), "000009-abc"];
  mkdirSync(places.release(broken));
  writeFileSync(places.manifest(broken), "{");
  expect(sizeOf(places, [broken])).toBe(0);
  const two = await release({ "b.css": "b{}" });
  expect(existsSync(at(two, "a.css"))).toBe(true);
  // Both have index.html and a.css.
  expect(sizeOf(places, [one, two])).toBe(3 * 4096);
});

test("a failed release leaves no folder behind", async () => {
  await release({});
  mkdirSync(join(places.out, "a"), { recursive: true });
  const found = { ...walk(places.out), files: ["a/missing.html"] };
  await expect(makeRelease(settings, places, { commit: "f".repeat(40), from }, found, warnings)).rejects.toThrow(
    "ENOENT",
  );
  expect(readdirSync(places.releases)).toHaveLength(1);
});

test("an asset that is gone is not carried along, and the others are", async () => {
  const one = await release({ "a.css": "a{}", "b.css": "b{}" });
  spawnSync("chmod", ["u+w", places.release(one)]);
  rmSync(at(one, "a.css"));
  const two = await release({ "c.css": "c{}" });
  expect([existsSync(at(two, "a.css")), existsSync(at(two, "b.css"))]).toEqual([false, true]);
  expect(warnings).toEqual([`assets changed on the disk are not carried along: ${one}/a.css`]);
});

test("a release that the disk does not take is an error, and leaves no folder", async () => {
  mkdirSync(places.out, { recursive: true });
  writeFileSync(join(places.out, "index.html"), "home");
  const elsewhere = { ...places, site: join(folder, "missing") };
  const made = makeRelease(settings, elsewhere, { commit: "a".repeat(40), from }, walk(places.out), warnings);
  await expect(made).rejects.toThrow(
    /^the disk did not take what was written: sync: .*missing.*: No such file or directory$/,
  );
  expect(releases(places)).toEqual([]);
  expect(readdirSync(places.releases)).toEqual([]);
});

describe("two releases are the same build", () => {
  const manifest = (id: string, files: Record<string, [sha256: string, built: string]>): Manifest => ({
    ...{ release: id, commit: "", at: "", pages: 0, bytes: 0, from },
    files: new Map(Object.entries(files).map(([path, [sha256, built]]) => [path, { size: 1, sha256, built }])),
  });
  const published = manifest("two", { a: ["1", "two"], b: ["2", "two"], old: ["9", "one"] });

  test.each<[string, Parameters<typeof manifest>[1], boolean]>([
    ["where they built the same files", { a: ["1", "three"], b: ["2", "three"] }, true],
    ["whatever they carry along", { a: ["1", "three"], b: ["2", "three"], other: ["8", "two"] }, true],
    ["unless one file differs", { a: ["1", "three"], b: ["3", "three"] }, false],
    ["unless one has fewer", { a: ["1", "three"] }, false],
    ["unless one has more", { a: ["1", "three"], b: ["2", "three"], c: ["3", "three"] }, false],
    ["unless one has another name", { a: ["1", "three"], c: ["2", "three"] }, false],
    ["unless a file is only carried along", { a: ["1", "three"], b: ["2", "two"] }, false],
  ])("%s", (_, files, same) => {
    expect(isSameBuild(manifest("three", files), published)).toBe(same);
  });
});
