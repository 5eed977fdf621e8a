/** A spool file is whole or absent, on the disk before the answer, and readable for the builder. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { countWaiting, folderFault, openSpool, type Spooled, SpoolFault } from "../../../service/receiver/spool.ts";
import { openIn } from "../open-files.ts";
import { onFolder, folder as place } from "../own-folder.ts";

let site: string;
onFolder();
beforeEach(() => {
  site = join(place, "site");
});

const files = () => readdirSync(site).sort();
const entry = (delivery: string): Spooled => ({
  delivery,
  hook: "site",
  event: "push",
  ref: "refs/heads/main",
  before: null,
  after: null,
  received: "2026-11-21T08:00:00.000Z",
});

test("the spool syncs the file before it renames it, and the folder before it returns", async ({ onTestFinished }) => {
  const folder = await open(place);
  const sync = vi.spyOn(Object.getPrototypeOf(folder) as typeof folder, "sync");
  onTestFinished(() => sync.mockRestore());
  await folder.close();
  const synced: [isFolder: boolean, file: string][] = [];
  sync.mockImplementation(async function (this: typeof folder) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const isFolder = (await this.stat()).isDirectory();
    for (const name of files())
      synced.push([isFolder, `${name.replace(/^\..*\.tmp$/, ".tmp")} ${readFileSync(join(site, name))}`]);
  });
  await openSpool(place, ["site"])(entry("a"));
  const text = `${JSON.stringify(entry("a"))}\n`;
  expect(synced).toEqual([
    [false, `.tmp ${text}`],
    [true, `a.json ${text}`],
  ]);
});

test("the builder's group can read a spool file also where the unit sets UMask=0077", async () => {
  const before = process.umask(0o077);
  try {
    await openSpool(place, ["site"])(entry("a"));
  } finally {
    process.umask(before);
  }
  expect(statSync(join(place, "site/a.json")).mode & 0o777).toBe(0o640);
});

test("deliveries with the same id, one after another or 100 at once, leave one whole file with the last of them", async () => {
  const spool = openSpool(place, ["site"]);
  await Promise.all(Array.from({ length: 100 }, () => spool(entry("a"))));
  expect(files()).toEqual(["a.json"]);
  expect(JSON.parse(readFileSync(join(site, "a.json"), "utf8"))).toEqual(entry("a"));
  await spool({ ...entry("a"), after: "b".repeat(40) });
  expect(files()).toEqual(["a.json"]);
  expect(JSON.parse(readFileSync(join(site, "a.json"), "utf8"))).toMatchObject({ after: "b".repeat(40) });
});

test("openSpool makes the folders, and removes what a power cut left half written, and nothing else", () => {
  openSpool(place, ["site", "docs"]);
  expect(readdirSync(place).sort()).toEqual(["docs", "site"]);
  const stays = ["1.json", "1.tmp", "1.a.tmp", ".1.tmp.json", ".tmp"];
  for (const name of [...stays, ".1.tmp", ".12.json.tmp"]) writeFileSync(join(site, name), "{");
  mkdirSync(join(site, ".folder.tmp"));
  openSpool(place, ["site"]);
  expect(files()).toEqual([...stays, ".folder.tmp"].sort());
});

describe("what another member of the spool's group puts into a folder", () => {
  const plant = (name: string) => join(site, name);
  test.each<[string, () => void]>([
    ["a folder with the name of a temporary file", () => mkdirSync(plant(".x.tmp/in/it"), { recursive: true })],
    ["a pipe", () => execFileSync("mkfifo", [plant(".x.tmp")])],
    ["a name not in UTF-8", () => writeFileSync(Buffer.concat([Buffer.from(plant(".")), Buffer.from([0xff])]), "")],
    ["a link at a delivery's name", () => symlinkSync(join(place, "outside"), plant("a.json"))],
  ])("%s stops no delivery and is not followed", async (_, make) => {
    mkdirSync(site);
    writeFileSync(join(place, "outside"), "of another program");
    make();
    await openSpool(place, ["site"])(entry("a"));
    expect(lstatSync(plant("a.json")).isFile()).toBe(true);
    expect(readFileSync(plant("a.json"), "utf8")).toContain('"delivery":"a"');
    expect(readFileSync(join(place, "outside"), "utf8")).toBe("of another program");
  });
});

describe("a folder that cannot be used", () => {
  const asFile = () => {
    rmSync(site, { recursive: true, force: true });
    writeFileSync(site, "");
  };
  test.each([
    ["is missing", "ENOENT", () => {}, () => rmSync(site, { recursive: true })],
    ["is a file", "ENOTDIR", () => {}, asFile],
    ["is a file already at the start", "ENOTDIR", asFile, () => {}],
  ])(
    "and %s: deliveries of its hook fail with the reason, those of others do not, until the folder is whole",
    async (_, code, before, after) => {
      before();
      const spool = openSpool(place, ["site", "docs"]);
      after();
      const fault = new SpoolFault(`${site} cannot be used (${code}). Run systemd-tmpfiles --create, which makes it.`);
      for (let i = 0; i < 3; i++) await expect(spool(entry("a"))).rejects.toThrow(fault);
      await spool({ ...entry("a"), hook: "docs" });
      rmSync(site, { force: true });
      mkdirSync(site);
      await spool(entry("b"));
      expect(files()).toEqual(["b.json"]);
    },
  );

  test("has no other error than those of its name and its rights", () => {
    const fault = (code?: string) => folderFault("/spool", Object.assign(new Error("x"), { code }));
    for (const code of ["EACCES", "EEXIST", "EPERM"]) expect(fault(code)).toContain(`(${code})`);
    for (const code of ["ENOSPC", "XEACCES", "EACCESX", undefined]) expect(fault(code)).toBeUndefined();
  });
});

test("where the disk fails, the spool throws and leaves no temporary file", async () => {
  const spool = openSpool(place, ["site"]);
  mkdirSync(join(site, "a.json"));
  await expect(spool(entry("a"))).rejects.toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
  expect(files()).toEqual(["a.json"]);
});

describe("a full spool", () => {
  test("fails with that reason, and accepts a delivery after the builder removed one", async () => {
    const spool = openSpool(place, ["site"], 3, 0);
    for (const id of ["a", "b", "c"]) await spool(entry(id));
    await expect(spool(entry("d"))).rejects.toThrow(new SpoolFault("the spool is full"));
    expect(files()).toHaveLength(3);
    rmSync(join(site, "a.json"));
    await spool(entry("d"));
    await expect(spool(entry("e"))).rejects.toThrow(SpoolFault);
  });

  test("counts its files at most once per interval, and not before it is full", async ({ onTestFinished }) => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const spool = openSpool(place, ["site"], 1, 200);
    writeFileSync(join(site, "other.json"), "");
    await spool(entry("a"));
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    for (const name of files()) rmSync(join(site, name));
    vi.advanceTimersByTime(199);
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    vi.advanceTimersByTime(1);
    await spool(entry("b"));
  });

  test("has 10,000 files of a hook, those from before a restart included: replays under other ids fill no disk", async () => {
    mkdirSync(site);
    execFileSync("sh", ["-c", "seq 9999 | xargs touch"], { cwd: site });
    const spool = openSpool(place, ["site"]);
    await spool(entry("a"));
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    await expect(openSpool(place, ["site"])(entry("b"))).rejects.toThrow(SpoolFault);
  });
});

test("countWaiting looks at as many files as it may, and closes the folder", () => {
  mkdirSync(site);
  for (const name of ["1", "2", "3", "4", "5"]) writeFileSync(join(site, name), "");
  const visit = vi.fn();
  expect([0, 3, 5, 9].map((most) => countWaiting(site, most, visit))).toEqual([0, 3, 5, 5]);
  expect(visit).toHaveBeenCalledTimes(13);
  expect(openIn(place)).toEqual([]);
});
