/** What receiver and builder do with a hook's folder in the spool. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { countWaiting, folderFault, tidied } from "../../../service/receiver/spool.ts";
import { folder } from "./harness.ts";

let place: string;
let spool: string;
beforeEach(() => {
  place = folder();
  spool = join(place, "spool/site");
});
afterEach(() => rmSync(place, { recursive: true }));
const write = (...names: string[]) => {
  mkdirSync(spool, { recursive: true });
  for (const name of names) writeFileSync(join(spool, name), "");
};

test("countWaiting closes the folder, also where it fails at a file", () => {
  write("1");
  const open = () => readdirSync("/proc/self/fd").length;
  const before = open();
  for (let i = 0; i < 20; i++) countWaiting(spool, 9);
  for (let i = 0; i < 20; i++)
    expect(() =>
      countWaiting(spool, 9, () => {
        throw new Error("gone");
      }),
    ).toThrow("gone");
  expect(open()).toBe(before);
});

test("countWaiting looks at as many files as it may, and no more", () => {
  write("1", "2", "3", "4", "5");
  for (const [most, count] of [
    [0, 0],
    [3, 3],
    [5, 5],
    [9, 5],
  ] as const) {
    let looked = 0;
    expect([most, countWaiting(spool, most, () => looked++)]).toEqual([most, count]);
    expect(looked).toBe(count);
  }
});

test("tidied makes the folder, and removes what a power cut left half written, and nothing else", () => {
  expect(tidied(spool, 10)).toBe(0);
  const stays = ["1.json", "1.tmp", "1.a.tmp", ".1.tmp.json", ".tmp"];
  write(...stays, ".1.tmp", ".12.json.tmp");
  mkdirSync(join(spool, ".a-folder.tmp"));
  tidied(spool, 10);
  expect(readdirSync(spool).sort()).toEqual([...stays, ".a-folder.tmp"].sort());
});

test("tidied takes a folder that cannot be used for a full one", () => {
  mkdirSync(join(spool, ".."), { recursive: true });
  writeFileSync(spool, "a file in the folder's place");
  expect(tidied(spool, 10)).toBe(10);
});

test("folderFault reports errors of the folder, and no other", () => {
  const coded = (code?: string) => Object.assign(new Error("x"), code === undefined ? {} : { code });
  for (const code of ["EACCES", "EEXIST", "ENOENT", "ENOTDIR", "EPERM"])
    expect(folderFault("/spool", coded(code))).toBe(
      `/spool cannot be used (${code}). Run systemd-tmpfiles --create, which makes it.`,
    );
  for (const code of ["ENOSPC", "XEACCES", "EACCESX", undefined])
    expect(folderFault("/spool", coded(code))).toBeUndefined();
});
