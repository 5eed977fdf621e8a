/** Manifests, the link to the published release, and which releases stay. make-release.test.ts makes whole ones. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  currentRelease,
  deployed,
  draft,
  filesOf,
  nextId,
  readManifest,
  releases,
  removeHalf,
  seal,
  staying,
  switchTo,
} from "../../../../service/builder/release/releases.ts";
import { releaseId as id, makeReleases, manifestOf } from "../harness.ts";
import { onPlaces, places } from "../scene.ts";

onPlaces();

const make = (...numbers: readonly number[]) => makeReleases(places, ...numbers);

const files = new Map([
  ["index.html", { size: 3, sha256: "1".repeat(64), built: id(3) }],
  ["app.css", { size: 5, sha256: "2".repeat(64), built: id(2) }],
]);

test("a manifest counts once it is sealed, with the sum of its files and the release that built each", () => {
  mkdirSync(places.release(id(3)));
  writeFileSync(`${places.manifest(id(3))}.new`, "what a kill left");
  expect(draft(places, manifestOf(id(3), files)).bytes).toBe(8);
  expect([releases(places), readManifest(places, id(3))]).toEqual([[], undefined]);
  seal(places, id(3));
  expect(releases(places)).toEqual([id(3)]);
  expect(JSON.parse(readFileSync(places.manifest(id(3)), "utf8")).files).toEqual([
    ["index.html", 3, "1".repeat(64)],
    ["app.css", 5, "2".repeat(64), id(2)],
  ]);
  const { files: _, ...manifest } = manifestOf(id(3));
  expect(readManifest(places, id(3))).toEqual({ ...manifest, bytes: 8 });
  expect(filesOf(places, id(3))).toEqual(files);
});

test("releases are those with a folder, a manifest and a name, newest first", () => {
  make(2, 10, 9);
  mkdirSync(places.release(id(11)));
  writeFileSync(places.manifest(id(12)), "{}");
  for (const name of ["x", "000013", "13-a", "000014-A", `${id(15)}.old`, `a${id(16)}`]) {
    mkdirSync(places.release(name));
    writeFileSync(places.manifest(name), "{}");
  }
  expect(releases(places)).toEqual([id(10), id(9), id(2)]);
  expect(nextId(places, "b".repeat(40))).toBe("000016-bbbbbbbbbbbb");
});

test("releases that stay are the next one, the published one and the newest, five at most", () => {
  make(2, 3, 4, 5, 6, 7);
  expect(staying(places)).toEqual([7, 6, 5, 4, 3].map(id));
  switchTo(places, id(2));
  expect(staying(places)).toEqual([2, 7, 6, 5, 4].map(id));
  expect(staying(places, id(3))).toEqual([3, 2, 7, 6, 5].map(id));
});

test("releases that were never finished go, with what else has no pair; the published one stays", () => {
  make(2, 3);
  switchTo(places, id(2));
  rmSync(places.manifest(id(2)));
  mkdirSync(places.release(id(4)));
  mkdirSync(places.release("not-a-release"));
  writeFileSync(places.manifest(id(5)), "{}");
  writeFileSync(`${places.manifest(id(6))}.new`, "{}");
  symlinkSync("releases/x", `${places.current}.new`);
  removeHalf(places);
  expect(readdirSync(places.releases).toSorted()).toEqual([id(2), id(3), "not-a-release"]);
  expect(readdirSync(places.manifests)).toEqual([`${id(3)}.json`]);
  expect(existsSync(places.current)).toBe(true);
  expect(readdirSync(places.site)).not.toContain("current.new");
});

test.each([
  [`releases/${id(2)}`, id(2)],
  [`releases/${id(2)}/below`, undefined],
  [`../site/releases/${id(2)}`, undefined],
  ["releases/other", undefined],
  [`releases/${id(3)}`, undefined],
  [`releases/${id(4)}`, undefined],
])("the published release where current leads to %s is %s", (target, release) => {
  make(2);
  mkdirSync(places.release("other"));
  writeFileSync(places.release(id(4)), "a file");
  expect([currentRelease(places), deployed(places)]).toEqual([undefined, undefined]);
  symlinkSync(target, places.current);
  expect(currentRelease(places)).toBe(release);
  expect(deployed(places)?.release).toBe(release);
});

test("the published release changes by one link, also where a kill left the next one", () => {
  make(2, 3);
  symlinkSync("left", `${places.current}.new`);
  switchTo(places, id(2));
  switchTo(places, id(3));
  expect(currentRelease(places)).toBe(id(3));
  expect(readdirSync(places.site)).not.toContain("current.new");
});
