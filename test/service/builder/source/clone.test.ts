/** The functions of the clone by themselves, with the real git. repository.test.ts and bounds.slow.test.ts have whole runs. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { gitOf } from "../../../../service/builder/source/git.ts";
import {
  admit,
  CloneFault,
  changes,
  checkOut,
  fetchHead,
  lastHead,
  removeHalfCheckout,
} from "../../../../service/builder/source/repository.ts";
import { type Bench, contextOf, onCopies, refsOf, timers, withCommand } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

const MiB = 1 << 20;
let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});
const clone = (...path: string[]) => join(site.places.clone, ...path);

const withLimit = (releaseBytes: number) => contextOf(site, { releaseBytes });

/** The error's kind and message. */
async function faultOf(work: Promise<unknown>): Promise<[kind: string, message: string]> {
  try {
    await work;
  } catch (error) {
    return [error instanceof CloneFault ? "of the clone" : "another", (error as Error).message];
  }
  return ["none", ""];
}

describe("the clone", () => {
  test("is fetched whole into a folder that Hugo's account cannot enter, beside nothing half made", async () => {
    const commit = site.repository.push(siteFiles(3));
    rmSync(site.places.clone, { recursive: true });
    mkdirSync(`${site.places.clone}.new`);
    writeFileSync(join(`${site.places.clone}.new`, "left"), "");
    expect(await fetchHead(contextOf(site))).toBe(commit);
    expect(statSync(clone(".git")).mode & 0o777).toBe(0o700);
    expect(existsSync(`${site.places.clone}.new`)).toBe(false);
    expect(readdirSync(clone())).toEqual([".git"]);
    expect(refsOf(site)).toEqual(["refs/pushgate/head"]);
  });

  test("without a HEAD is made anew, with nothing of the former one", async () => {
    const commit = site.repository.head()!;
    rmSync(clone(".git/HEAD"));
    writeFileSync(clone("left"), "");
    expect(await fetchHead(contextOf(site))).toBe(commit);
    expect(readdirSync(clone())).toEqual([".git"]);
    expect(existsSync(site.places.checkedOut)).toBe(false);
  });

  test("has the head of its branch and no other's", async () => {
    const commit = site.repository.head()!;
    site.repository.push(siteFiles(3), { branch: "draft" });
    expect(await fetchHead(contextOf(site))).toBe(commit);
  });

  test("knows the head of its last fetch, and none without one", async () => {
    expect(await lastHead(contextOf(site))).toBe(site.repository.head());
    spawnSync("git", ["-C", clone(), "update-ref", "-d", "refs/pushgate/head"]);
    expect(await lastHead(contextOf(site))).toBeNull();
    rmSync(site.places.clone, { recursive: true });
    expect(await lastHead(contextOf(site))).toBeNull();
  });

  test.each<[string, (at: ReturnType<typeof contextOf>) => Promise<unknown>, string, string]>([
    ["fetch", fetchHead, "of the clone", "git cannot fetch: fatal: a riddle"],
    ["ls-tree", (at) => admit(at, "HEAD"), "of the clone", "git cannot list the commit: fatal: a riddle"],
    ["read-tree", (at) => checkOut(at, "HEAD"), "of the clone", "git cannot check the commit out: fatal: a riddle"],
    [
      "ls-files",
      (at) => checkOut(at, site.repository.head()!),
      "of the clone",
      "git cannot list the files: fatal: a riddle",
    ],
  ])("is at fault where git %s fails for no reason that is known", async (command, work, kind, message) => {
    const at = withCommand(site, command, "echo 'fatal: a riddle' >&2; exit 128");
    expect(await faultOf(work(at))).toEqual([kind, message]);
  });

  test("that cannot be made is no fault of a clone", async () => {
    rmSync(site.places.clone, { recursive: true });
    const at = withCommand(site, "init", "echo 'fatal: a riddle' >&2; exit 128");
    expect(await faultOf(fetchHead(at))).toEqual(["another", "git cannot make a clone: fatal: a riddle"]);
    const none = gitOf({ ...site.builder, path: join(site.folder, "nowhere") });
    expect(await faultOf(fetchHead({ ...at, git: none }))).toEqual([
      "another",
      expect.stringMatching(/^git is not installed\. /),
    ]);
  });

  test("is not at fault where git has no memory, and git leaves no timer behind", async () => {
    const before = timers();
    const at = withCommand(site, "fetch", "kill -9 $$");
    expect(await faultOf(fetchHead(at))).toEqual([
      "another",
      expect.stringMatching(/^git reached the builder's memory/),
    ]);
    expect(await lastHead(at)).toBe(site.repository.head());
    expect(timers()).toBeLessThanOrEqual(before);
  });

  test("a commit that the disk did not take is no fault of the clone", async () => {
    const at = withCommand(site, "read-tree", "echo 'error: unable to write file x' >&2; exit 128");
    expect(await faultOf(checkOut(at, "HEAD"))).toEqual([
      "another",
      expect.stringMatching(/^git cannot write its files\. Free space/),
    ]);
  });
});

describe("what a killed git left", () => {
  const left = ["index.lock", "refs/heads/x.lock", "gc.pid", "modules/t/gc.pid", "objects/pack/tmp_pack_1"];
  const stays = ["x.lock.txt", "gc.pid.txt", "xgc.pid", "tmp", "objects/pack/x_tmp_1"];
  beforeEach(() => {
    for (const name of [...left, ...stays]) {
      mkdirSync(dirname(clone(".git", name)), { recursive: true });
      writeFileSync(clone(".git", name), "");
    }
  });
  const found = (names: string[]) => names.filter((name) => existsSync(clone(".git", name)));

  test("goes, and a checkout that ended stays", () => {
    const before = readdirSync(clone());
    expect(before.length).toBeGreaterThan(1);
    removeHalfCheckout(site.places);
    expect(found(left)).toEqual(["objects/pack/tmp_pack_1"]);
    removeHalfCheckout(site.places, true);
    expect([found(left), found(stays)]).toEqual([[], stays]);
    expect(readdirSync(clone())).toEqual(before);
    expect(existsSync(clone(".git/index"))).toBe(true);
  });

  test("goes with a checkout that did not end, and all but the clone itself", () => {
    rmSync(site.places.checkedOut);
    removeHalfCheckout(site.places, true);
    expect([found(left), found(stays)]).toEqual([[], stays]);
    expect(readdirSync(clone())).toEqual([".git"]);
    expect(existsSync(clone(".git/index"))).toBe(false);
  });

  test("is nothing where there is no clone", () => {
    rmSync(site.places.clone, { recursive: true });
    rmSync(site.places.checkedOut);
    removeHalfCheckout(site.places);
    expect(existsSync(site.places.clone)).toBe(false);
  });
});

describe("the size of a commit", () => {
  const block = 4096;
  /** Bytes on the disk of one file of each size, and a block for a submodule. */
  const sizes = [0, 1, block, block + 1, 10 * block];
  const total = (1 + 1 + 1 + 2 + 10 + 1) * block;
  const files = Object.fromEntries(sizes.map((size, i) => [`with a space/${i} .bin`, Buffer.alloc(size)]));

  test("may be that of a release, and no block more", async () => {
    const commit = site.repository.prepare({ ...files, module: { submodule: "c".repeat(40) } }, null);
    site.repository.point(commit);
    await fetchHead(contextOf(site));
    expect(await faultOf(admit(withLimit(total), commit))).toEqual(["none", ""]);
    expect(await faultOf(admit(withLimit(total - 1), commit))).toEqual([
      "another",
      `the commit ${commit.slice(0, 12)} is too large: its files take 0.1 MiB on the disk, and may take 0.1. Remove ` +
        "files, or raise hooks[].site.limits.releaseMiB.",
    ]);
  });

  test("is not counted to its end where the list of its files is longer than a release allows", async () => {
    // Each line of the list takes 260 bytes and more.
    const many = Object.fromEntries(Array.from({ length: 4_500 }, (_, i) => [`${"x".repeat(200)}${i}`, ""]));
    const commit = site.repository.prepare(many, null);
    site.repository.point(commit);
    await fetchHead(contextOf(site));
    const [, message] = await faultOf(admit(withLimit(MiB), commit));
    expect(message).toMatch(
      /^the commit \w{12} is too large: its files take more than 1[56]\.\d MiB on the disk, and may take 1\.0\. /,
    );
    expect(await faultOf(admit(withLimit(32 * MiB), commit))).toEqual(["none", ""]);
  });
});

describe("the changes between two commits", () => {
  test("are paths of any characters, in both directions of a move", async () => {
    const from = site.repository.head()!;
    const to = site.repository.push({ "static/logo.svg": null, "docs/a b\n.svg": "x" });
    await fetchHead(contextOf(site));
    expect(await changes(contextOf(site), from, to)).toEqual({ paths: ["docs/a b\n.svg", "static/logo.svg"] });
  });

  test("are unknown where the history was rewritten, and where the clone lacks the published commit", async () => {
    const [from, at] = [site.repository.head()!, contextOf(site)];
    const to = site.repository.rewrite({ ...siteFiles(1), "README.md": "another root" });
    expect(await fetchHead(at)).toBe(to);
    const short = from.slice(0, 12);
    expect(await changes(at, from, to)).toEqual({
      unknown: `the history was rewritten: ${short} is no ancestor of the head`,
    });
    rmSync(site.places.clone, { recursive: true });
    await fetchHead(at);
    expect(await changes(at, from, to)).toEqual({ unknown: `the published commit ${short} is not in the clone` });
  });

  test.each([
    ["diff-tree", "exit 128", "the published commit $ is not in the clone"],
    ["merge-base", "exit 128", "the published commit $ is not in the clone"],
    ["merge-base", "exit 1", "the history was rewritten: $ is no ancestor of the head"],
    ["diff-tree", "head -c 70000000 /dev/zero; exit 0", "too many files changed to compare"],
  ])("are unknown where git %s ends with: %s", async (command, script, unknown) => {
    const head = site.repository.head()!;
    expect(await changes(withCommand(site, command, script), head, head)).toEqual({
      unknown: unknown.replace("$", head.slice(0, 12)),
    });
  });
});
