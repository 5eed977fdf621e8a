/** The functions of the clone by themselves, with the real git. repository.test.ts has whole runs. */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { mostOutput } from "../../../../service/builder/child.ts";
import { most } from "../../../../service/builder/files.ts";
import {
  admit,
  type BuildContext,
  CloneFault,
  changes,
  checkOut,
  fetchHead,
  removeHalfCheckout,
} from "../../../../service/builder/source/repository.ts";
import { contextOf, refsOf, withCommand } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

onCopies(2);
const clone = (...path: string[]) => join(site.places.clone, ...path);

/** The error's message, with its kind where a broken clone may have caused it. */
const faultOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: Error) => `${error instanceof CloneFault ? "the clone: " : ""}${error.message}`,
  );

test("the clone is fetched whole, with one branch, into a folder that Hugo's account cannot enter, beside nothing half made", async () => {
  const commit = site.repository.push(siteFiles(3));
  site.repository.push(siteFiles(4), { branch: "draft" });
  rmSync(clone(".git/HEAD"));
  writeFileSync(clone("left"), "");
  mkdirSync(`${site.places.clone}.new`);
  writeFileSync(join(`${site.places.clone}.new`, "left"), "");
  expect(await fetchHead(contextOf(site))).toBe(commit);
  expect(statSync(clone(".git")).mode & 0o777).toBe(0o700);
  expect([`${site.places.clone}.new`, site.places.checkedOut].filter((path) => existsSync(path))).toEqual([]);
  expect(readdirSync(clone())).toEqual([".git"]);
  expect(refsOf(site)).toEqual(["refs/pushgate/head"]);
});

const head = () => site.repository.head()!;
test.each<[string, (at: BuildContext) => Promise<unknown>, string]>([
  ["fetch", fetchHead, "the clone: git cannot fetch: fatal: a riddle"],
  ["ls-tree", (at) => admit(at, "HEAD"), "the clone: git cannot list the commit: fatal: a riddle"],
  ["read-tree", (at) => checkOut(at, "HEAD"), "the clone: git cannot check the commit out: fatal: a riddle"],
  ["ls-files", (at) => checkOut(at, head()), "the clone: git cannot list the files: fatal: a riddle"],
  ["init", fetchHead, "git cannot make a clone: fatal: a riddle"],
])("a riddle of git %s is the clone's fault, unless git cannot make it", async (name, work, fault) => {
  if (name === "init") rmSync(site.places.clone, { recursive: true });
  expect(await faultOf(work(withCommand(site, name, { stderr: "fatal: a riddle" })))).toBe(fault);
});

test.each([false, true])("what a killed git left goes; a checkout stays only where it ended: %s", (ended) => {
  const left = ["index.lock", "refs/heads/x.lock", "gc.pid", "modules/t/gc.pid", "objects/pack/tmp_pack_1"];
  const stays = ["x.lock.txt", "gc.pid.txt", "xgc.pid", "tmp", "objects/pack/x_tmp_1"];
  for (const name of [...left, ...stays]) {
    mkdirSync(dirname(clone(".git", name)), { recursive: true });
    writeFileSync(clone(".git", name), "");
  }
  const found = (names: string[]) => names.filter((name) => existsSync(clone(".git", name)));
  if (!ended) rmSync(site.places.checkedOut);
  const before = readdirSync(clone());
  removeHalfCheckout(site.places);
  expect(found(left)).toEqual(["objects/pack/tmp_pack_1"]);
  removeHalfCheckout(site.places, true);
  expect([found(left), found(stays), readdirSync(clone())]).toEqual([[], stays, ended ? before : [".git"]]);
  expect(existsSync(clone(".git/index"))).toBe(ended);
  rmSync(site.places.clone, { recursive: true });
  removeHalfCheckout(site.places);
  expect(existsSync(site.places.clone)).toBe(false);
});

test("the size of a commit may be that of a release, and no block more", async () => {
  const block = 4096;
  const sizes = [0, 1, block, block + 1, 10 * block];
  const files = Object.fromEntries(sizes.map((size, i) => [`with a space/${i} .bin`, Buffer.alloc(size)]));
  // A submodule takes a block.
  const total = (1 + 1 + 1 + 2 + 10 + 1) * block;
  const commit = site.repository.prepare({ ...files, module: { submodule: "c".repeat(40) } }, null);
  site.repository.point(commit);
  await fetchHead(contextOf(site));
  const admitted = (releaseBytes: number) => faultOf(admit(contextOf(site, { releaseBytes }), commit));
  expect(await admitted(total)).toBeUndefined();
  expect(await admitted(total - 1)).toMatch(/^the commit \w{12} is too large: its files take 0\.1 MiB on the disk, /);
});

test("the size of a commit may have as many files as a builder's memory holds, and paths as long, and no more", async () => {
  const listed = (files: number, path: string, cut = false) => {
    const stdout = `100644 blob ${"c".repeat(64)} ${"1".padStart(7)}\t${path}\0`.repeat(files);
    expect(stdout.length).toBeLessThan(mostOutput);
    const git = async () => ({ code: cut ? undefined : 0, stdout, stderr: "", cut, late: false });
    return faultOf(admit({ ...contextOf(site), git }, "c".repeat(40)));
  };
  const many =
    "the commit cccccccccccc has more than 100,000 files and folders, or paths of more than 8 MiB. Remove files.";
  expect(await listed(100_000, "x".repeat(80))).toBeUndefined();
  expect(await listed(100_001, "x")).toBe(many);
  expect(await listed(2_048, "x".repeat(4_095))).toBe(many);
  expect(await listed(1, "x", true)).toBe(many);
  const checkout = checkOut(withCommand(site, "ls-files", { cut: true }), head());
  expect(await faultOf(checkout)).toMatch(/^the commit \w{12} with its submodules has more than 100,000 files/);
});

test("the changes between two commits are paths of any characters, in both directions of a move", async () => {
  const from = site.repository.head()!;
  const to = site.repository.push({ "static/logo.svg": null, "docs/a b\n.svg": "x" });
  await fetchHead(contextOf(site));
  expect(await changes(contextOf(site), from, to)).toMatchObject({ paths: ["docs/a b\n.svg", "static/logo.svg"] });
});

test("the changes between two commits are unknown where the history was rewritten, and where the clone lacks the published commit", async () => {
  const [from, at] = [site.repository.head()!, contextOf(site)];
  const to = site.repository.rewrite({ ...siteFiles(1), "README.md": "another root" });
  await fetchHead(at);
  const short = from.slice(0, 12);
  const rewritten = `the history was rewritten: ${short} is no ancestor of the head`;
  expect(await changes(at, from, to)).toEqual({ unknown: rewritten });
  const lacking = { unknown: `the published commit ${short} is not in the clone` };
  for (const command of ["diff-tree", "merge-base"])
    expect(await changes(withCommand(site, command), from, from)).toEqual(lacking);
  // Of two commits that are admitted, all paths fit.
  expect(2 * (most.entries + most.pathBytes)).toBeLessThan(mostOutput);
  const many = withCommand(site, "diff-tree", { code: 0, cut: true });
  expect(await changes(many, from, from)).toEqual({ unknown: "too many files changed to compare" });
  rmSync(site.places.clone, { recursive: true });
  await fetchHead(at);
  expect(await changes(at, from, to)).toEqual(lacking);
});
