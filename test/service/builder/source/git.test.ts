/**
 * git on a host whose owner has configured it for other programs, and against hostile remotes and repositories. Each line
 * of git.ts has an attack here that gets further without it; a line that has none is no protection.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join, relative } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { readText, remove } from "../../../../service/builder/files.ts";
import { type Git, gitOf } from "../../../../service/builder/source/git.ts";
import { discardClone } from "../../../../service/builder/source/repository.ts";
import { createAuthority } from "../../../fakes/cloudflare/authority.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { gitAfter, timers } from "../harness.ts";
import { attributes } from "../hugo-site.ts";
import { type Changes, checkedOut, git, gitWith, host, hostile, linesOf, onHostileHost, site } from "./git-scene.ts";

onHostileHost();

describe("the host's configuration", () => {
  const files = ["system", "user", "xdg", "template"].map((name) => `${name}.txt`);
  const content = {
    ".gitattributes": files.map((file) => `${file} filter=${file.slice(0, -4)}\n`).join(""),
    ...Object.fromEntries(files.map((file) => [file, "one\ntwo\n"])),
  };

  /** What of the host's configuration has had an effect. */
  async function effects(by: Git): Promise<string> {
    discardClone(site.places);
    await checkedOut(by);
    const read = (path: string) => readFileSync(join(site.places.clone, path), "utf8");
    const lineEnds = files.filter((file) => read(file).includes("\r")).map((file) => `line ends of ${file}`);
    const ours = read("static/whose.txt").trim();
    const reflog = read(".git/logs/refs/pushgate/head");
    host.faults.status = 401;
    host.logins.length = 0;
    await checkedOut(by);
    delete host.faults.status;
    return [
      ...hostile.marks(),
      ...lineEnds,
      ...(ours === "of the site" ? [] : [ours]),
      ...(host.logins.length === 0 ? [] : ["netrc"]),
      ...(reflog.includes("looked-up.example.net") ? ["the host's name was looked up"] : []),
    ]
      .sort()
      .join(", ");
  }

  /** As `git lfs install` writes one, with a proxy repository and a helper for passwords. */
  const gitconfig = (name: string) => {
    host.repository(`other-${name}`).push({ ...content, "static/whose.txt": `insteadOf of ${name}\n` });
    return `[filter "${name}"]
  smudge = "${hostile.mark(`filter-of-${name}`)}; cat"
[credential]
  helper = "!${hostile.mark(`helper-of-${name}`)}; :"
[url "${host.url(`other-${name}`)}"]
  insteadOf = ${site.builder.settings.repository}
`;
  };

  let written = false;
  beforeEach(() => {
    if (written) return;
    written = true;
    site.repository.push({ ...content, "static/whose.txt": "of the site\n" });
    hostile.write("etc/gitconfig", gitconfig("system"));
    hostile.write("home/.gitconfig", gitconfig("user"));
    hostile.write("home/.config/git/config", gitconfig("xdg"));
    hostile.write("templates/config", gitconfig("template"));
    hostile.write("etc/gitattributes", "system.txt text eol=crlf\n");
    hostile.write("home/.config/git/attributes", "xdg.txt text eol=crlf\n");
    hostile.write("home/.netrc", "default login another password secret\n", 0o600);
  });

  test.each<[string, (home: string) => Changes, string]>([
    ["with all lines", () => ({}), ""],
    [
      "without those that keep the system's and the templates' out",
      () => ({
        ...{ GIT_CONFIG_NOSYSTEM: undefined, GIT_ATTR_NOSYSTEM: undefined },
        ...{ GIT_TEMPLATE_DIR: undefined, GIT_COMMITTER_EMAIL: undefined },
      }),
      "filter-of-system, filter-of-template, helper-of-system, helper-of-template, insteadOf of system, " +
        "line ends of system.txt, the host's name was looked up",
    ],
    [
      "with the HOME of the account, which systemd sets",
      (home) => ({ HOME: home }),
      "filter-of-user, filter-of-xdg, helper-of-user, helper-of-xdg, insteadOf of xdg, line ends of xdg.txt, netrc",
    ],
  ])("it has an effect %s: %s", async (_, changes, expected) => {
    expect(await effects(git(changes(hostile.home)))).toEqual(expected);
  });
});

test("git gets no variable of the builder's own environment, and would without the line; the disk's watch ends with git", async () => {
  const trace = join(site.folder, "own-trace");
  vi.stubEnv("GIT_TRACE", trace);
  onTestFinished(() => void vi.unstubAllEnvs());
  const before = timers();
  await gitOf(site.builder)(["version"], site.folder);
  expect(existsSync(trace)).toBe(false);
  expect(timers()).toBeLessThanOrEqual(before);
  await gitWith(site.builder, {}, 5, process.env as Record<string, string>)(["version"], site.folder);
  expect(existsSync(trace)).toBe(true);
});

test("git ends where the site takes too much of the disk, and goes on where it only reads", async () => {
  const path = gitAfter("sleep 0.5", site);
  const limits = { ...site.builder.settings.limits, releaseBytes: 1_000 };
  const slow = gitOf({ ...site.builder, path, settings: { ...site.builder.settings, limits } });
  writeFileSync(join(site.places.work, "written"), Buffer.alloc(10_000));
  onTestFinished(() => remove(join(site.places.work, "written")));
  await expect(slow(["version"], site.folder)).rejects.toThrow(/^the site wrote more than it may: /);
  expect(await slow(["rev-parse", "x"], site.folder)).toMatchObject({ code: 128 });
});

test("the host's authorities are trusted, or those that the builder names in their place; without the line both", async () => {
  hostile.write("etc/ssl/certs/ca-certificates.crt", host.ca);
  const { certificate } = await createAuthority("another");
  hostile.write("etc/another.pem", certificate);
  const { authorities: _, ...ofHost } = { ...site.builder, path: hostile.path };
  const ofAnother = { ...ofHost, authorities: hostile.at("etc/another.pem") };
  expect(await checkedOut(gitWith(ofHost))).toBeUndefined();
  expect(await checkedOut(gitWith(ofAnother))).toMatch(/certificate .* is not trusted/);
  expect(await checkedOut(gitWith(ofAnother, { GIT_SSL_CAPATH: undefined }))).toBeUndefined();
});

/** A server without encryption, at each address of this host. Returns its port. */
async function plainServer(answer: RequestListener): Promise<number> {
  const server = createServer(answer);
  onTestFinished(() => void server.close());
  await once(server.listen(0), "listening");
  return (server.address() as AddressInfo).port;
}

const text = "a picture";
const oid = createHash("sha256").update(text).digest("hex");
const serves = (bytes: string) => {
  host.lfs.objects.set(oid, Buffer.from(bytes));
  return {};
};
const found = () => readText(join(site.places.clone, "static/a.png"));

test.each<[string, () => Promise<Files> | Files, RegExp, Changes, RegExp]>([
  ["has other bytes", () => serves("A PICTURE"), /expected OID/, { "filter.lfs.required": undefined }, /^$/],
  [
    "names an address without encryption",
    async () => {
      host.lfs.href = `http://127.0.0.1:${await plainServer((_, response) => response.end(text))}`;
      return {};
    },
    /server gave HTTP response to HTTPS client/,
    { "lfs.transfer.enableHrefRewrite": undefined },
    /^a picture$/,
  ],
  [
    "has an address without encryption",
    async () => {
      host.lfs.href = new URL(`/objects/${oid}`, host.url("x")).href;
      const port = await plainServer((...of) => void host.lfs.answer(...of));
      return { ".lfsconfig": `[lfs]\n\turl = http://127.0.0.1:${port}/info/lfs\n` };
    },
    /server gave HTTP response to HTTPS client/,
    { "url.https://.insteadOf": undefined },
    /^a picture$/,
  ],
  [
    "is a folder of the host",
    () => {
      const { folder } = host.repository("kept");
      const objects = `${relative(hostile.at(""), folder)}/lfs/objects`;
      hostile.write(`${objects}/${oid.slice(0, 2)}/${oid.slice(2, 4)}/${oid}`, text);
      return { ".lfsconfig": `[lfs]\n\turl = file://${folder}\n` };
    },
    /remote missing object/,
    { "lfs.storage": undefined },
    /^a picture$/,
  ],
])("a server of Git LFS that %s brings nothing but without a line", async (_, prepare, reason, without, brought) => {
  const pointer = host.lfs.pointerTo(text);
  site.repository.push({ ...attributes, ".lfsconfig": "", "static/a.png": pointer, ...(await prepare()) });
  expect(await checkedOut(git())).toMatch(reason);
  expect(found()).toBeUndefined();
  await checkedOut(git(without));
  expect(found()).toMatch(brought);
});

test("no configuration of a commit has it run a program, and one of the clone would without the line", async () => {
  const program = (name: string) => `"${hostile.mark(name)}; git-lfs filter-process"`;
  const filter = `[filter "lfs"]\n\tprocess = ${program("filter")}\n`;
  const agent = `[lfs]\n\tstandaloneTransferAgent = own\n[lfs "customtransfer.own"]\n\tpath = ${program("agent")}\n`;
  const extension = `[lfs "extension.own"]\n\tsmudge = ${program("extension")}\n\tpriority = 0\n`;
  const pushed = (file: string, lfsconfig: string, named = "oid") => {
    const pointer = host.lfs.pointerTo(file).replace("oid", named);
    site.repository.push({ ...attributes, ".lfsconfig": lfsconfig, "static/a.png": pointer });
  };
  pushed("one", agent + filter);
  expect([await checkedOut(git()), found(), hostile.marks()]).toEqual([undefined, "one", []]);
  pushed("two", extension, `ext-0-own sha256:${oid}\noid`);
  expect([await checkedOut(git()), hostile.marks()]).toEqual([expect.stringMatching(/^Git LFS does not bring/), []]);
  pushed("three", "");
  appendFileSync(join(site.places.clone, ".git/config"), filter);
  expect([await checkedOut(git()), found(), hostile.marks()]).toEqual([undefined, "three", []]);
  pushed("four", "");
  await checkedOut(git({ "filter.lfs.process": undefined }));
  expect(hostile.marks()).toEqual(["filter"]);
});

const theme = (url: string, more = "") => ({
  ".gitmodules": `[submodule "theme"]\n\tpath = theme\n\turl = ${url}\n${more}`,
  theme: { submodule: "1".repeat(40) },
});
const pushed = (files: Files) => site.repository.push(files);
const opened = (protocols?: string): Changes => ({ GIT_ALLOW_PROTOCOL: protocols });
const privateOne = () => host.repository("private").folder;
test.each<[string, () => string, Changes, RegExp]>([
  ["a program", () => `ext::${hostile.mark("reached")}`, opened("https:ssh:ext"), /transport 'ext' not allowed/],
  ["a repository on the host", privateOne, opened("https:ssh:file"), /transport 'file' not allowed/],
  ["a host without encryption", () => "git://127.0.0.1/theme.git", opened(), /transport 'git' not allowed/],
  [
    "a host over SSH, where the site has no deploy key",
    () => "ssh://git@127.0.0.1/x.git",
    { GIT_SSH_COMMAND: undefined },
    /Could not read from remote repository|clone of 'ssh:/,
  ],
])("the address of a submodule leads to %s only without a line", async (_, url, open, reason) => {
  hostile.write("programs/ssh", `#!/bin/sh\n${hostile.mark("reached")}\nexit 1\n`, 0o755);
  const cloned = join(site.places.clone, ".git/modules/theme/HEAD");
  const reached = async (by: Git) => {
    const said = (await checkedOut(by, true))!;
    return { said, found: [...hostile.marks(), ...(existsSync(cloned) ? ["reached"] : [])] };
  };
  pushed(theme(url()));
  const closed = await reached(git());
  expect(closed).toEqual({ said: expect.stringMatching(reason), found: [] });
  const { said, found } = await reached(git(open));
  // A git host that answers nothing is reached all the same.
  expect(found.length > 0 || /unable to connect to 127\.0\.0\.1/.test(said), said).toBe(true);
});

test("git runs no command that .gitmodules names for an update, and one of the clone's own configuration", async () => {
  pushed(theme(host.url("theme"), `\tupdate = !${hostile.mark("ran")}\n`));
  expect(await checkedOut(git(), true)).toMatch(/invalid value for '?submodule\.theme\.update/);
  expect(hostile.marks()).toEqual([]);
  pushed({ ...theme(host.url("theme")), theme: { submodule: host.repository("theme").push({ "a.css": "" }) } });
  await git()(["config", "submodule.theme.update", `!${hostile.mark("ran")}`]);
  await checkedOut(git(), true);
  expect(hostile.marks()).toEqual(["ran"]);
});

test("what git keeps of a submodule stays until .gitmodules changes, or leaves", async () => {
  const files = { ...theme(host.url("theme")), theme: { submodule: host.repository("theme").push({ "a.css": "" }) } };
  const kept = join(site.places.clone, ".git/modules/theme/kept");
  const stays = async (next: Files) => {
    pushed(next);
    expect(await checkedOut(git(), true)).toBeUndefined();
    const isThere = existsSync(kept);
    if (next.theme) writeFileSync(kept, "");
    return isThere;
  };
  const changed = { ".gitmodules": `${files[".gitmodules"]}\tbranch = main\n` };
  const found = [await stays(files), await stays({ "a.txt": "" }), await stays({ ...files, ...changed })];
  expect([...found, await stays({ ".gitmodules": null, theme: null })]).toEqual([false, true, false, false]);
});

test("a hook in the clone is not run, and would be without the line", async () => {
  // As a fault of git could leave one: CVE-2024-32002 wrote into the folder of a submodule.
  pushed({ ".gitmodules": null, theme: null });
  await checkedOut(git());
  const hook = join(site.places.clone, ".git/hooks/post-index-change");
  mkdirSync(dirname(hook), { recursive: true });
  writeFileSync(hook, `#!/bin/sh\n${hostile.mark("hook")}\n`, { mode: 0o755 });
  expect(await checkedOut(git())).toBeUndefined();
  expect(hostile.marks()).toEqual([]);
  await checkedOut(git({ "core.hooksPath": undefined }));
  expect(hostile.marks()).toEqual(["hook"]);
});

test("a link whose name is not UTF-8 leads nowhere, and would lead to a file of the host", async () => {
  const link = (commit: string) =>
    `commit refs/heads/main\ncommitter A <a@example.net> 1 +0000\ndata 1\nx\nfrom ${commit}\n` +
    `M 120000 inline "static/\\377.txt"\ndata 11\n/etc/passwd\n\n`;
  const input = link(site.repository.head()!);
  execFileSync("git", ["--git-dir", site.repository.folder, "fast-import", "--quiet"], { input });
  const name = Buffer.from(`${join(site.places.clone, "static")}/\xff.txt`, "latin1");
  await checkedOut(git());
  expect(readFileSync(name, "utf8")).toBe("/etc/passwd");
  await checkedOut(git({ "core.symlinks": undefined }));
  expect(readFileSync(name, "utf8")).toContain("root:");
});

test("each line of git's environment has its attack, here, in ssh.test.ts or in git.slow.test.ts", () => {
  const overSsh = { repository: "git@git.example.org:x.git", agent: "/run/agent", knownHosts: "/etc/known" };
  const lines = linesOf({ ...site.builder, settings: { ...site.builder.settings, ...overSsh } });
  const tests = ["git.test.ts", "git.slow.test.ts", "ssh.test.ts"]
    .map((file) => readFileSync(new URL(file, import.meta.url), "utf8"))
    .join();
  // Without these no fetch succeeds.
  const needed = ["GIT_SSL_CAINFO", "IdentityAgent", "PATH"];
  expect(lines.filter((line) => !new RegExp(`[{ ]"?${line}"?: `).test(tests))).toEqual(needed);
});
