/** Files in the outbox that another program than the builder put there: what the reporter opens, closes and sets aside. */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { add, removeReport, waiting } from "../../../service/builder/outbox.ts";
import { openIn } from "../open-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-outbox-"));
});
// Node's rmSync fails at a path of more than 4096 bytes.
afterEach(() => void execFileSync("rm", ["-rf", folder]));

const put = () =>
  add(folder, { to: "status", commit: null, state: "success", reason: "Published.", at: new Date().toISOString() });

test("a pipe is no report, also where a report is in it", () => {
  put();
  const report = readFileSync(join(folder, "000000001.json"));
  const pipe = join(folder, "000000002.json");
  execFileSync("mkfifo", [pipe]);
  const descriptor = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  onTestFinished(() => closeSync(descriptor));
  writeSync(descriptor, report);
  expect(waiting(folder).map(({ report }) => report?.reason)).toEqual(["Published.", undefined]);
});

test("each file is closed again, whatever it holds", () => {
  put();
  writeFileSync(join(folder, "000000002.json"), "{");
  mkdirSync(join(folder, "000000003.json"));
  expect(waiting(folder)).toHaveLength(3);
  expect(openIn(folder)).toEqual([]);
});

test("a folder that is too deep to be removed gets a name that counts no more", () => {
  const levels = "/a".repeat(1_900);
  for (const name of ["deep", "more"]) execFileSync("mkdir", ["-p", join(folder, name + levels)]);
  renameSync(join(folder, "more"), join(folder, `deep${levels}/more`));
  removeReport(folder, Buffer.from("deep"));
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^\.aside-\w{6}$/)]);
  expect(waiting(folder)).toEqual([]);
});

test("a folder, a link and a file whose name is no text are removed", () => {
  const noText = Buffer.from([0xff, 0x41]);
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), noText]), "");
  symlinkSync("/etc/passwd", join(folder, "link"));
  mkdirSync(join(folder, "folder/full"), { recursive: true });
  const found = waiting(folder).map(({ name }) => name);
  expect(found).toEqual([Buffer.from("folder"), Buffer.from("link"), noText]);
  for (const name of found) removeReport(folder, name);
  expect(readdirSync(folder)).toEqual([]);
  // The builder removes the oldest of too many meanwhile.
  removeReport(folder, Buffer.from("000000001.json"));
});
