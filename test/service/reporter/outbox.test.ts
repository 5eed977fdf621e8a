/** The outbox: reports in their order, and what another program than the builder put there. */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { add, type Report, removeReport, waiting } from "../../../service/builder/outbox.ts";
import { openIn } from "../open-files.ts";
import { folder, onFolder } from "../own-folder.ts";

onFolder();

const at = "2026-11-23T12:00:00Z";
const report: Report = { to: "status", commit: null, state: "success", reason: "Published.", at };
const put = (change: object = {}) => add(folder, { ...report, ...change });
const nameOf = (number: number) => `${number}.json`.padStart(14, "0");
const write = (number: number, text: string) => writeFileSync(join(folder, nameOf(number)), text);
const reasons = () => waiting(folder).map(({ report }) => report?.reason);

test("the outbox is bounded, has reports in the order of their numbers, and a half-written report is none", () => {
  for (let i = 1; i <= 500; i += 1) write(i, "");
  for (const reason of ["one", "two", "three"]) put({ reason });
  writeFileSync(join(folder, ".new"), '{"to":');
  expect(waiting(folder).map(({ name }) => `${name}`)).toEqual(Array.from({ length: 500 }, (_, i) => nameOf(i + 4)));
  expect(reasons().slice(-4)).toEqual([undefined, "one", "two", "three"]);
});

test.each<[string, object, isRead?: true]>([
  ["a recipient in another folder", { to: "notify.../x" }],
  ["more after a recipient's name", { to: "status!" }],
  ["more after an address", { url: "https://www.example.org/ x" }],
  ["a commit of 39 digits", { commit: "1".repeat(39) }],
  ["a commit of 65 digits", { commit: "1".repeat(65) }],
  ["a commit in capitals", { commit: "A".repeat(40) }],
  ["no commit", { commit: undefined }],
  ["another state", { state: "done" }],
  ["a reason of two lines", { reason: "one\ntwo" }],
  ["a reason of 502 characters", { reason: "x".repeat(502) }],
  ["a day without a time", { at: "2026-11-23" }],
  ["null for a commit, and no reason", { commit: null, reason: "" }, true],
  ["a commit of SHA-256, and the longest reason", { commit: "a".repeat(64), reason: "x".repeat(501) }, true],
  ["a recipient of site.notify", { to: "notify.team", state: "failure" }, true],
  ["a build that began", { state: "pending" }, true],
])("a report with %s", (_, given, isRead) => {
  put(given);
  const read = isRead && { ...report, ...given };
  expect(waiting(folder)).toEqual([{ name: Buffer.from("000000001.json"), report: read }]);
});

describe("what the builder did not write", () => {
  test("is no report, and each file is closed again: pipes, a large file, a folder, no JSON, a link, other names", () => {
    const pipe = join(folder, nameOf(1));
    execFileSync("mkfifo", [pipe]);
    const descriptor = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    onTestFinished(() => closeSync(descriptor));
    put();
    const text = readFileSync(join(folder, nameOf(2)), "utf8");
    writeSync(descriptor, text);
    write(3, text.trim().padEnd(8 << 10));
    write(4, `${" ".repeat(8 << 10)}${text}`);
    mkdirSync(join(folder, nameOf(5)));
    write(6, "{");
    symlinkSync(join(folder, nameOf(2)), join(folder, nameOf(7)));
    // An empty pipe stops no reader.
    execFileSync("mkfifo", [join(folder, nameOf(8))]);
    for (const name of ["000000009.json5", "00000009.json", "x000000009.json"]) writeFileSync(join(folder, name), text);
    const before = openIn(folder);
    const found = new Map(waiting(folder).map(({ name, report }) => [`${name}`, report?.reason]));
    const reports = [...found].filter(([, reason]) => reason !== undefined);
    expect(reports.map(([name]) => name)).toEqual([nameOf(2), nameOf(3)]);
    expect(found.size).toBe(11);
    expect(openIn(folder)).toEqual(before);
  });

  test("is removed: a folder, a link and a file whose name is no text", () => {
    const noText = Buffer.from([0xff, 0x41]);
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), noText]), "");
    symlinkSync("/etc/passwd", join(folder, "link"));
    mkdirSync(join(folder, "folder/full"), { recursive: true });
    const found = waiting(folder).map(({ name }) => name);
    expect(found).toEqual([Buffer.from("folder"), Buffer.from("link"), noText]);
    for (const name of found) removeReport(folder, name);
    expect([readdirSync(folder), readFileSync("/etc/passwd").length > 0]).toEqual([[], true]);
    // The builder removes the oldest of too many meanwhile.
    removeReport(folder, Buffer.from(nameOf(1)));
  });

  test("gets a name that counts no more where a folder is too deep to be removed", () => {
    const levels = "/a".repeat(1_900);
    for (const name of ["deep", "more"]) execFileSync("mkdir", ["-p", join(folder, name + levels)]);
    renameSync(join(folder, "more"), join(folder, `deep${levels}/more`));
    removeReport(folder, Buffer.from("deep"));
    expect(readdirSync(folder)).toEqual([expect.stringMatching(/^\.aside-\w{6}$/)]);
    expect(waiting(folder)).toEqual([]);
  });
});
