/** What git takes of memory, disk and time, and what it collects after days: as git.test.ts, by the lines of git.ts. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { discardClone, fetchHead } from "../../../../service/builder/source/repository.ts";
import { attributes, siteFiles } from "../hugo-site.ts";
import { type Changes, checkedOut, git, gitWith, host, hostile, onHostileHost, site } from "./git-scene.ts";

onHostileHost();

test("a fetch that gets 20 bytes a second is ended, and would last for its whole time limit", async () => {
  host.faults.trickles = true;
  const quick = { "http.lowSpeedTime": "1" };
  const took = async (changes: Changes, seconds: number) => {
    const folder = mkdtempSync(join(site.folder, "trickle-"));
    await git()(["init", "--quiet"], folder);
    const { late, stderr } = await git(changes, seconds)(["fetch", site.builder.settings.repository], folder);
    return late ? "late" : stderr;
  };
  const [ended, ...others] = await Promise.all([
    took(quick, 20),
    took({ ...quick, "http.lowSpeedLimit": undefined }, 3),
    took({ "http.lowSpeedTime": undefined }, 3),
  ]);
  expect(ended).toContain("Operation too slow");
  expect(others).toEqual(["late", "late"]);
});

test("a server of Git LFS that fails is left after another try, and would be tried until the time limit", async () => {
  const pointer = host.lfs.pointerTo("a picture");
  site.repository.push({ ...attributes, "static/a.png": pointer });
  host.lfs.href = "https://localhost:1/";
  expect(await checkedOut(git())).toMatch(/^Git LFS does not bring .* connection refused/);
  expect(await checkedOut(git({ "lfs.transfer.maxRetries": undefined }, 4))).toContain("took longer than");
});

test("git does not take a repository above a broken clone for the clone, and would without the line", async () => {
  await checkedOut(git());
  const outer = join(site.places.site, ".git");
  await git()(["init", "--quiet", site.places.site], site.folder);
  const taken = () => existsSync(join(outer, "FETCH_HEAD"));
  writeFileSync(join(site.places.clone, ".git/HEAD"), "");
  expect(await checkedOut(git())).toContain("not a git repository");
  expect(taken()).toBe(false);
  await checkedOut(git({ GIT_CEILING_DIRECTORIES: undefined }));
  expect(taken()).toBe(true);
  rmSync(outer, { recursive: true });
});

test("a fetch does not fetch for submodules, and would fail for good where one lacks a commit", async () => {
  const commit = host.repository("parts").push({ "a.css": "" });
  const submodules = (to: string) =>
    site.repository.push({
      ".gitmodules": `[submodule "parts"]\n\tpath = parts\n\turl = ${host.url("parts")}\n`,
      parts: { submodule: to },
    });
  const at = (changes: Changes) => ({ settings: site.builder.settings, places: site.places, git: git(changes) });
  submodules(commit);
  expect(await checkedOut(git(), true)).toBeUndefined();
  submodules("2".repeat(40));
  submodules(commit);
  await expect(fetchHead(at({ "fetch.recurseSubmodules": undefined }))).rejects.toThrow("not our ref");
  expect(await fetchHead(at({}))).toBe(site.repository.head());
});

const gone = async (commit: string) => (await git()(["cat-file", "-e", `${commit}^{commit}`])).code !== 0;

test.each<[string, number, Changes]>([
  ["core.logAllRefUpdates", 0, { "core.logAllRefUpdates": undefined }],
  ["gc.reflogExpireUnreachable", 60, { "gc.reflogExpireUnreachable": undefined }],
])("a former head stays after a forced push, and without %s is gone after %i days", async (_, days, changes) => {
  const outcomes: boolean[] = [];
  for (const by of [git(), git(changes)]) {
    discardClone(site.places);
    const former = site.repository.rewrite({ "README.md": `${outcomes.length} ${days}` });
    await checkedOut(by);
    site.repository.rewrite({ "README.md": "another" });
    await checkedOut(by);
    const log = join(site.places.clone, ".git/logs/refs/pushgate/head");
    const aged = (text: string) => text.replace(/ (\d{10}) /g, (_, at) => ` ${Number(at) - days * 86_400} `);
    if (existsSync(log)) writeFileSync(log, aged(readFileSync(log, "utf8")));
    expect((await by(["gc", "--quiet", "--prune=now"])).code).toBe(0);
    outcomes.push(await gone(former));
  }
  expect(outcomes).toEqual([false, true]);
});

/** Loose objects of no commit: so many that git collects garbage by itself, and still so many after that. */
async function litter(): Promise<void> {
  await checkedOut(git());
  await git()(["config", "gc.auto", "1"]);
  const folder = join(site.places.clone, ".git/objects/17");
  mkdirSync(folder, { recursive: true });
  for (let i = 0; i < 9; i += 1) writeFileSync(join(folder, `${i}`.repeat(38)), "");
}
const packs = () => readdirSync(join(site.places.clone, ".git/objects/pack")).length;

test("git collects no garbage during a fetch, and before gc returns; it would in both, in the background, and leave a log that stops it", async () => {
  await litter();
  await checkedOut(git());
  expect(packs()).toBe(0);
  await checkedOut(git({ "maintenance.auto": undefined }));
  expect(packs()).toBeGreaterThan(0);

  discardClone(site.places);
  await litter();
  const log = join(site.places.clone, ".git/gc.log");
  await git()(["gc", "--auto", "--quiet"]);
  expect([packs() > 0, existsSync(log)]).toEqual([true, false]);
  await git({ "gc.autoDetach": undefined })(["gc", "--auto", "--quiet"]);
  await expect.poll(() => existsSync(log)).toBe(true);
});

describe("git's memory and the disk", () => {
  const MiB = 1 << 20;
  /** git with a limit of memory, as LimitDATA= of its unit. */
  const limited = (mebibytes: number): void => {
    const real = execFileSync("sh", ["-c", "command -v git"]).toString().trim();
    hostile.write("programs/git", `#!/bin/sh\nulimit -d ${mebibytes << 10}\nexec ${real} "$@"\n`, 0o755);
  };
  afterEach(() => hostile && rmSync(hostile.at("programs/git"), { force: true }));

  test("a large file is fetched piece by piece, and would be in git's memory", async () => {
    limited(24);
    site.repository.rewrite({ "static/large.bin": Buffer.alloc(30 * MiB) });
    expect(await checkedOut(git())).toBeUndefined();
    discardClone(site.places);
    expect(await checkedOut(git({ "core.bigFileThreshold": undefined }))).toMatch(/memory/i);
  });

  test("files below that size are compared in a part of git's memory, and would all be in it", async () => {
    // Of almost the same text, so that each is compared with ten others.
    const files = Array.from({ length: 12 }, (_, i) => [`${i}.bin`, Buffer.alloc(8 * MiB, `${i}`.padEnd(9_000 + i))]);
    site.repository.rewrite(Object.fromEntries(files));
    limited(80);
    const pack = async (changes: Changes) => {
      const words = ["--git-dir", site.repository.folder, "pack-objects", "--all", "--no-reuse-delta", "-q"];
      return (await git(changes)([...words, join(site.folder, "pack")], site.folder)).stderr;
    };
    expect(await pack({})).toBe("");
    expect(await pack({ "pack.windowMemory": undefined })).toMatch(/memory/i);
  });

  test("git compares with two threads, and would with one for each processor", async () => {
    site.repository.rewrite(siteFiles(1));
    await checkedOut(git());
    const threads = async (changes: Changes) => {
      const { stderr } = await git(changes)(["pack-objects", "--all", "--progress", join(site.folder, "pack")]);
      return /using up to (\d+) threads/.exec(stderr)?.[1];
    };
    expect([await threads({}), await threads({ "pack.threads": undefined })]).toEqual(["2", "64"]);
  });

  test("each object of a fetch is on the disk before its ref, by one flush for all; without a line by none, or by one each", async () => {
    site.repository.rewrite(siteFiles(1));
    const flushes = async (changes: Changes) => {
      discardClone(site.places);
      const trace = join(site.folder, "trace");
      rmSync(trace, { force: true });
      const traced = gitWith({ ...site.builder, path: hostile.path }, changes, 30, { GIT_TRACE2_EVENT: trace });
      await fetchHead({ settings: site.builder.settings, places: site.places, git: traced });
      // git 2.39 writes a datum, git 2.47 a counter.
      const count = (name: string) => {
        const counts = new RegExp(`"(?:key":"fsync/|name":")${name}","(?:value|count)":"?(\\d+)`, "g");
        return [...readFileSync(trace, "utf8").matchAll(counts)].reduce((sum, [, found]) => sum + Number(found), 0);
      };
      return { written: count("writeout-only"), flushed: count("hardware-flush") };
    };
    const { written, flushed } = await flushes({});
    expect(written).toBeGreaterThan(5);
    // One for the objects, one for the ref.
    expect(flushed).toBe(2);
    expect((await flushes({ "core.fsync": undefined })).written).toBe(0);
    expect(await flushes({ "core.fsyncMethod": undefined })).toEqual({ written: 0, flushed: written + 1 });
  });
});
