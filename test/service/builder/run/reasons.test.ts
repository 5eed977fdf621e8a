/** What each fault is called in the status and on the commit: from literal outputs, without git, Hugo and a disk. */
import { expect, test } from "vitest";
import type { Ended } from "../../../../service/builder/child.ts";
import { setbackOf } from "../../../../service/builder/run/setback.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { lastLine, memoryFault, remoteFault, submoduleFault } from "../../../../service/builder/source/git-faults.ts";

const settings = {
  ...{ repository: "git@git.example.net:example/site.git", branch: "main" },
  limits: { seconds: 600, memoryMiB: 1024 },
} as BuilderSettings;
const ended = (stderr: string, more: Partial<Ended> = {}): Ended => ({
  ...{ code: 128, stdout: "", stderr, cut: false, late: false },
  ...more,
});

test.each([
  ["EDQUOT", undefined, "the disk quota is used up. "],
  ["EMFILE", undefined, "too many files are open. "],
  ["ENOSPC", undefined, "the disk is full. "],
  ["EROFS", "/x", "the file system is read-only. "],
  ["EACCES", "/x", "/x cannot be used (EACCES): "],
  ["EPERM", "/x", "/x cannot be used (EPERM): "],
  ["EACCES", undefined, "unexpected: the message"],
  ["EIO", "/x", "unexpected: the message"],
  [undefined, "/x", "unexpected: the message"],
])("anything thrown with the code %s of %s has the reason: %s", (code, path, reason) => {
  const error = Object.assign(new Error("the message"), { ...(code && { code }), ...(path && { path }) });
  expect(setbackOf(error)).toMatchObject({ result: "failed", message: expect.stringContaining(reason) });
});

test("anything thrown that is no error is quoted, cut and without control characters", () => {
  expect(setbackOf("a text").message).toBe("unexpected: a text");
  expect(setbackOf(new Error(`\u001b${"x".repeat(300)}`)).message).toBe(`unexpected: ?${"x".repeat(299)}…`);
});

test.each([
  ["a fatal one before later ones", "fatal: one\nerror: two\n", "fatal: one"],
  ["else the last of git, of the remote or of ssh", "hint: x\nremote: one\nerror: two\nnoise\n", "error: two"],
  ["also of ssh", "noise\nssh: connect\nmore\n", "ssh: connect"],
  ["also with the account", "git@host: Permission denied\nmore\n", "git@host: Permission denied"],
  ["else the last one", "one\n two \n\n", " two"],
  ["nothing", "", ""],
  ["cut", `fatal: ${"x".repeat(300)}`, `fatal: ${"x".repeat(193)}…`],
])("git's last line is %s", (_, stderr, line) => expect(lastLine(stderr)).toBe(line));

const host = "git.example.net";
const lfs = (name: string) => `Error downloading object: ${name}.png (0a1b2c3): Smudge error: why\n`;
test.each([
  ["spawn git ENOENT", "git is not installed. Run apt-get install git."],
  ["fatal: No space left on device", "the disk is full."],
  ["fatal: Disk quota exceeded", "the disk is full."],
  ["fatal: couldn't find remote ref refs/heads/main", "the repository has no branch main. Push it, or change"],
  ["Host key verification failed.", `the host key of ${host} is not the pinned one.`],
  ["@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", `the host key of ${host} is not the pinned one.`],
  ["No ED25519 host key is known for x", `the host key of ${host} is not the pinned one.`],
  ["git@x: Permission denied (publickey).", `${host} rejected the deploy key.`],
  ["ERROR: Permission to a/b denied to key", `${host} rejected the deploy key.`],
  ["fatal: could not read Username for x", `git.example.net requires a login for ${settings.repository}:`],
  ["fatal: Authentication failed for x", "git.example.net requires a login"],
  ["error: HTTP 403", "git.example.net requires a login"],
  ["remote: Repository x not found", `${settings.repository} is not there.`],
  ["fatal: The requested URL returned error: 404", `${settings.repository} is not there.`],
  ["fatal: 'x' does not appear to be a git repository", `${settings.repository} is not there.`],
  ["ssh: Could not resolve hostname: Could not resolve host", `the name ${host} cannot be resolved.`],
  ["fatal: SSL problem", `the certificate of ${host} is not trusted.`],
  ["fatal: server certificate verification failed", `the certificate of ${host} is not trusted.`],
  ["fatal: Failed to connect to x", `${host} cannot be reached.`],
  ["ssh: connect to host x port 22: Connection refused", `${host} cannot be reached.`],
  ["ssh: connect to host x port 22: Connection timed out", `${host} cannot be reached.`],
  ["ssh: connect to host x port 22: No route to host", `${host} cannot be reached.`],
  ["fatal: Operation too slow. Less than 1000 bytes/sec", `${host} closed the connection during the fetch.`],
  ["fatal: early EOF", `${host} closed the connection during the fetch.`],
  ["fatal: the remote end hung up unexpectedly", `${host} closed the connection`],
  ["fatal: unexpected disconnect while reading sideband", `${host} closed the connection`],
  ["error: RPC failed; curl 56", `${host} closed the connection`],
  ["fatal: The requested URL returned error: 502", `${host} closed the connection`],
  ["Connection reset by peer", `${host} closed the connection`],
  [`remote: ${lfs("b")}${lfs("a")}fatal: smudge filter lfs failed`, "Git LFS does not bring a.png: why. Push it"],
  ["fatal: unable to write new index file", "git cannot write its files. Free space, or"],
])("the remote %s: %s", (stderr, reason) => {
  const found = remoteFault(ended(stderr), settings)!;
  expect(found.startsWith(reason)).toBe(true);
  expect(found.endsWith(` (git: ${lastLine(stderr)})`)).toBe(true);
});

test("the remote is not the cause of what git does not name, and a time limit comes first", () => {
  for (const stderr of ["fatal: bad object HEAD", "fatal: unable to read tree"])
    expect(remoteFault(ended(stderr), settings)).toBe(undefined);
  for (const repository of [settings.repository, "https://git.example.net:8443/a", "ssh://git@git.example.net:22/a"])
    expect(remoteFault(ended("fatal: Authentication failed", { late: true }), { ...settings, repository })).toBe(
      `the fetch from ${host} took longer than 600 s. Raise hooks[].site.limits.seconds.`,
    );
});

const without = " Without submodules: hooks[].site.submodules: false.";
const cloning = (url: string, fault: string) =>
  `fatal: clone of '${url}' into submodule path 'a' failed\nfatal: ${fault}`;
test.each([
  [cloning("file:///x", "transport 'file' not allowed"), "file:///x is neither https nor SSH. "],
  [cloning("https://h/x", "could not read Username"), "https://h/x is private, or its name is wrong. "],
  [
    "remote: Repository not found\nFailed to fetch submodule path 'themes/a'",
    "themes/a is not there. Correct its address in .gitmodules, or allow the deploy key to read it.",
  ],
  [
    "Submodule 'a' (ssh://h/x) registered: submodule 'themes/a' (ssh://h/x)\nCould not read from remote repository",
    "ssh://h/x is read over SSH, with the deploy key and the known hosts of the site.",
  ],
  ["fatal: it went wrong", "git says: fatal: it went wrong. Correct .gitmodules."],
  ["fatal: repository 'x' not found: y", "a submodule is not there. "],
])("a submodule %s: %s", (stderr, reason) => {
  const found = submoduleFault(ended(stderr), settings);
  expect(found.startsWith(`a submodule: ${reason}`)).toBe(true);
  expect(found.endsWith(without)).toBe(true);
});

const of = (stderr: string, more: Partial<Ended> = {}) => memoryFault(ended(stderr, more));
const limit = "git reached the builder's memory limit, or the host has no memory left.";

test.each([
  "fatal: Out of memory, malloc failed",
  "fatal: cannot allocate memory",
  "fatal: unable to create thread: x",
  "fatal: unable to create load_index thread",
  "error: index-pack died of signal 9",
  "error: index-pack died of signal 11",
])("memory is the cause of: %s", (stderr) => {
  expect(of(stderr)).toMatch(limit);
  expect(of(stderr)).toMatch(/\(git: (fatal|error): /);
});

test("memory is the cause where git was killed, and not where the builder itself ended it", () => {
  expect(of("", { signal: "SIGKILL" })).toMatch(/\(git: ended by SIGKILL\)$/);
  for (const more of [{ late: true }, { cut: true }]) expect(of("", { signal: "SIGKILL", ...more })).toBe(undefined);
  for (const stderr of ["fatal: other", "error: died of signal 15", "died of signal 90"])
    expect(of(stderr)).toBe(undefined);
});
