/** What a person runs against machines: `npm run status` and `npm run rollback`, with the real shell on the other side. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { question, readAnswer, type Status } from "../../../infra/cli/look.ts";
import { chosen, rollbackScript } from "../../../infra/cli/releases.ts";
import { type Host, tell } from "../../../infra/cli/tell.ts";
import { duration, size } from "../../../infra/cli/words.ts";
import { cannotPublish, startPublishing } from "../../demo/publish.ts";
import { exampleHost } from "../../example.ts";
import { site } from "../../served.ts";
import { says, siteFiles } from "../../service/builder/hugo-site.ts";
import { lintShell, missing } from "../host/namespace.ts";
import { OpsMachines, releases, status } from "./hosts.ts";

const machines = new OpsMachines();
afterAll(() => machines.remove());

const { state: _, ...bare } = exampleHost;
const web1 = { ...bare, name: "web1", ssh: "root@web1" };
const web2 = { ...bare, name: "web2", ssh: "admin@web2", sudo: true, hostname: "hooks2.example.org" };
const hook = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
const { webRoot, content } = site;
const built = { ...hook, site: { webRoot, content } };

beforeEach(() => {
  machines.configure([web1, web2], [built]);
  machines.machine("web1");
  machines.machine("web2");
});
const restarted = (host: string) => existsSync(machines.at(host, "restarted"));

describe("status", () => {
  test("tells of each machine what is published, what was tried last, and that all is well", async () => {
    machines.write("web2", "var/spool/pushgate/site/1.json", "{}");
    machines.write("web2", "var/spool/pushgate/site/.taken/2.json", "{}");
    const { code, stdout, stderr } = await machines.run("status");
    expect([code, stderr]).toEqual([0, ""]);
    const [, first = "", second = ""] = stdout.split(/^web\d /m);
    expect(first).toMatch(/guard: proven\n {2}nginx\.service active \(running\)/);
    expect(first).toMatch(/site {2}https:\/\/github\.com\/example\/site\.git main/);
    expect(first).toMatch(/published +000003-cccccccccccc, /);
    expect(first).toMatch(/head +cccccccccccc, as published/);
    expect(first).toMatch(/last +published, .* in 1\.8 s: 3 pages changed/);
    expect(first).toMatch(/releases +000003-cccccccccccc {2}\S+ {2}30 pages, 14\.3 MiB {2}<- current/);
    expect(first).toMatch(/pending +nothing/);
    expect(second).toMatch(/pending +1 delivery, 1 taken and not published yet/);
    expect(stdout).toMatch(/All is as it should be\.\n$/);
    expect(readFileSync(machines.at("web2", "ssh.log"), "utf8")).toBe("exec sudo -n timeout 30 sh -s\n");
    expect(readFileSync(`${machines.folder}/pulumi.log`, "utf8")).not.toContain("show-secrets");
  });

  test("--json is the same for a program, with what is wrong as a list and in the exit status", async () => {
    const failing = { since: "2026-11-23T10:00:00Z", attempts: 4, next: "2026-11-23T10:02:00Z" };
    const last = { ...status().last, result: "failed", reason: "hugo: error calling partial" };
    const units = { "pushgate-build-site.path": "loaded failed failed trigger-limit-hit enabled" };
    machines.machine("web1", { says: status({ failing, last }), units });
    machines.write("web2", "run/pushgate-guard/verdict", "closed: the kernel does not enforce it");
    const { code, stdout } = await machines.run("status", "--json", "--stack", "prod");
    const { machines: told, faults } = JSON.parse(stdout);
    expect(code).toBe(1);
    expect(faults).toEqual([
      "web1: site fails since 2026-11-23T10:00:00Z: hugo: error calling partial",
      "web1: pushgate-build-site.path failed (trigger-limit-hit)",
      "web2: guard: closed: the kernel does not enforce it",
    ]);
    expect(told[0].hooks[0]).toMatchObject({ name: "site", status: { failing }, pending: { deliveries: 0, taken: 0 } });
    expect(readFileSync(`${machines.folder}/pulumi.log`, "utf8")).toMatch(/config --json --stack prod\n$/);
  });

  test("a build that runs is told beside the former state, and since when; one that waits to try again is none", async () => {
    const now = Math.floor(Date.now() / 1000);
    const minutesAgo = (minutes: number) => new Date((now - 60 * minutes) * 1000).toISOString();
    const units = (since: string) => ({
      "pushgate-build-site.service": `loaded active running success static @${Date.parse(since) / 1000}`,
    });
    const last = (at: string) => ({ ...status().last, at });
    const building = async (starts: string, says: Partial<Status>) => {
      machines.machine("web1", { says: status(says), units: units(starts) });
      const [{ hooks }] = JSON.parse((await machines.run("status", "--json")).stdout).machines;
      return hooks[0].building;
    };
    const failing = (minutes: number) => ({ since: minutesAgo(90), attempts: 4, next: minutesAgo(minutes) });
    expect(await building(minutesAgo(5), { last: last(minutesAgo(60)) })).toBe(minutesAgo(5));
    // The same builder went on from one to the next.
    expect(await building(minutesAgo(5), { last: last(minutesAgo(2)) })).toBe(minutesAgo(2));
    expect(await building(minutesAgo(80), { last: last(minutesAgo(10)), failing: failing(1) })).toBe(minutesAgo(1));
    expect(await building(minutesAgo(80), { last: last(minutesAgo(10)), failing: failing(-3) })).toBeUndefined();

    machines.machine("web1", { says: status({ last: last(minutesAgo(60)) }), units: units(minutesAgo(5)) });
    const { code, stdout } = await machines.run("status");
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/published +000003-c[\s\S]*building +since 5 min ago \(/),
    ]);
  });

  test("a machine that can't be reached is named with the cure, and the others are told of all the same", async () => {
    machines.configure(
      [{ ...web1, ssh: "root@gone" }, web2, { ...bare, name: "web3", state: "lost", hostname: "h3.example.org" }],
      [built],
    );
    const { code, stdout } = await machines.run("status");
    expect(code).toBe(1);
    expect(stdout).toMatch(/web1: the name does not resolve, .* check with: ssh root@gone/);
    expect(stdout).toMatch(/web2 \(admin@web2\)\n {2}guard: proven/);
    expect(stdout).toMatch(/web3 .*\n {2}is declared lost, so it was not asked/);
    expect(stdout).not.toMatch(/Not as it should be:[\s\S]*web3/);
  });

  test("a hook without a site has what lies in its spool, whatever the login shell prints; before the first build it says so", async () => {
    machines.configure([web1, web2], [hook]);
    machines.write("web1", "var/spool/pushgate/site/1.json", "{}");
    machines.write("web1", "prints", "Welcome to Debian!\n");
    machines.machine("web2", { says: null });
    expect((await machines.run("status")).stdout).toMatch(/pending +1 delivery; no site, so nothing builds/);
    machines.configure([web2], [built]);
    expect((await machines.run("status")).stdout).toMatch(/published +nothing yet: no build has ended/);
  });

  test("what the stack's configuration lacks, and an unknown option, are one line each", async () => {
    machines.configure([{ name: "web1" }], []);
    expect(await machines.run("status")).toMatchObject({
      ...{
        code: 1,
        stdout: "",
        stderr: "status: the stack's configuration has faults: npx pulumi preview names each with its cure\n",
      },
    });
    const { code, stderr } = await machines.run("status", "--jsn");
    expect([code, stderr.split("\n").length]).toEqual([1, 2]);
  });
});

/** As service/builder does: status first, then the ask goes. */
const does = (result: string, reason: string) => `sleep 0.3
name=$(cat "$root/var/spool/pushgate-publish/site/$ask")
[ "$name" = "$ask" ] && [ "$(stat -c %a "$root/var/spool/pushgate-publish/site/$ask")" = 644 ] || exit
mv "$root/var/spool/pushgate-publish/site/$ask" "$root/var/spool/pushgate-publish/site/.taken/"
sed -e 's/"result":"published"/"result":"${result}"/' -e 's/"reason":"[^"]*"/"reason":"${reason}"/' -e "s/delivery 72d3162e/$ask/" "$status" >"$status.new"
mv "$status.new" "$status"
rm "$root/var/spool/pushgate-publish/site/.taken/$ask"`;

describe("rollback", () => {
  const good = { builder: does("rolled back", "it is published; cccccccccccc is not published again") };
  const [current, before, oldest] = releases.map(({ id }) => id) as [string, string, string];

  test("goes to the release before the current one, on every machine, and says what came of it", async () => {
    for (const host of ["web1", "web2"]) machines.machine(host, good);
    const { code, stdout, stderr } = await machines.run("rollback", "site");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout.split("\n").sort()).toEqual([
      "",
      "web1: rolled back: it is published; cccccccccccc is not published again",
      "web2: rolled back: it is published; cccccccccccc is not published again",
    ]);
    for (const host of ["web1", "web2"]) {
      const text = readFileSync(machines.at(host, "var/lib/pushgate-sites/site/status.json"), "utf8");
      expect(JSON.parse(text).last.trigger).toEqual([`rollback-${before}`]);
      expect(readFileSync(machines.at(host, "restarted"), "utf8")).toBe("pushgate-build-site.service\n");
      expect(readdirSync(machines.at(host, "var/spool/pushgate-publish"))).toEqual(["site"]);
    }
  });

  test.each([
    ["a release by name", oldest],
    ["a release by its commit", "aaaaaaa"],
  ])("%s, on one machine alone", async (_, wanted) => {
    machines.machine("web2", good);
    const { stdout } = await machines.run("rollback", "site", wanted, "--host", "web2");
    expect(stdout).toMatch(/^web2: rolled back/);
    expect(restarted("web1")).toBe(false);
    const text = readFileSync(machines.at("web2", "var/lib/pushgate-sites/site/status.json"), "utf8");
    expect(JSON.parse(text).last.trigger).toEqual([`rollback-${oldest}`]);
  });

  test("the builder's refusal is passed on", async () => {
    machines.configure([web1], [built]);
    machines.machine("web1", { builder: does("refused", "it is not what was published: index.html differs") });
    expect(await machines.run("rollback", "site", current)).toMatchObject({
      ...{ code: 1, stderr: "rollback: web1: refused: it is not what was published: index.html differs\n" },
    });
  });

  test("an ask that was done and then written over is not taken for done", async () => {
    machines.configure([web1], [built]);
    machines.machine("web1", { builder: 'rm "$root/var/spool/pushgate-publish/site/$ask"' });
    expect((await machines.run("rollback", "site")).stderr).toMatch(/^rollback: web1: .* is not known: npm run status/);
  });

  test("an unknown release on one machine: no machine changes, and what there is is listed", async () => {
    for (const host of ["web1", "web2"]) machines.machine(host, good);
    machines.machine("web1", { ...good, says: status({ releases: releases.slice(0, 2) }) });
    const { code, stdout, stderr } = await machines.run("rollback", "site", oldest);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^rollback: web1: there is no release "000001-a+": there are\n {4}000003-c+ {2}.*<- current\n {4}000002-b+ /,
    );
    expect([restarted("web1"), restarted("web2")]).toEqual([false, false]);
  });

  test.each<[name: string, args: string[], told: RegExp]>([
    ["no hook", [], /^rollback: write npm run rollback -- <hook> \[release\]; hooks with a site: site\n$/],
    ["an unknown hook", ["docs"], /"docs" has no releases: hooks with a site: site/],
    ["an unknown machine", ["site", "--host", "web9"], /no such machine: present are web1, web2/],
  ])("%s is named with what there is", async (_, args, told) => {
    const { code, stderr } = await machines.run("rollback", ...args);
    expect(code).toBe(1);
    expect(stderr).toMatch(told);
    expect([restarted("web1"), restarted("web2")]).toEqual([false, false]);
  });
});

/** A rollback is root's to ask for: whoever runs this is root in there, and what it writes is root's. */
const asRoot = process.getuid?.() === 0 ? "" : "unshare --user --map-root-user ";

test("with the real builder: two pushes, back to the first, held, and status says so", async ({ skip }) => {
  const reason = cannotPublish() ?? missing("unshare");
  skip(reason !== undefined, reason);
  machines.configure([web1], [built]);
  machines.machine("web1", { says: null });
  const folder = (path: string) => machines.at("web1", path);
  const publishing = await startPublishing({
    spool: folder("var/spool/pushgate/site"),
    asks: folder("var/spool/pushgate-publish/site"),
    site: folder("var/lib/pushgate-sites/site"),
  });
  try {
    machines.write("web1", "bin/builder", `#!/bin/sh\n${asRoot}${publishing.command}\n`);
    for (const revision of [1, 2]) {
      publishing.repository.push(siteFiles(revision));
      machines.write("web1", `var/spool/pushgate/site/${revision}.json`, "{}\n");
      expect(await publishing.build()).toMatchObject({ last: { result: "published" } });
    }
    expect(publishing.page()).toContain(says(2));
    const { code, stdout, stderr } = await machines.run("rollback", "site");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(
      /^web1: rolled back: 000002-\w+ is published; \w+ is not published again, a newer commit is\n$/,
    );
    expect(publishing.page()).toContain(says(1));
    const told = await machines.run("status");
    expect(told.stdout).toMatch(/published +000002-\w+, .*\n +head +\w+, held back by a rollback\n +last +rolled back/);
    expect(told.code).toBe(0);
    expect((await machines.run("rollback", "site", "000009")).stderr).toMatch(
      /there is no release "000009": there are/,
    );
  } finally {
    await publishing.close();
  }
});

describe("which release is meant", () => {
  const now = "2026-11-24T10:00:00Z";
  test.each([
    ["the one before", undefined, releases[1]!.id],
    ["by name", releases[2]!.id, releases[2]!.id],
    ["by commit", "aaaaaaa", releases[2]!.id],
  ])("%s", (_, wanted, id) => {
    expect(chosen(status(), now, wanted)).toBe(id);
  });
  test.each<[name: string, wanted: string | undefined, says: Partial<Status>, told: RegExp]>([
    [
      "an unknown one",
      "000009-dead",
      {},
      /no release "000009-dead": there are\n {4}000003-c+ {2}1 day ago .*<- current/,
    ],
    ["a commit nobody built", "1234567", {}, /there is no release "1234567"/],
    ["too few letters of one", "aaa", {}, /there is no release "aaa"/],
    ["a path", "../../etc", {}, /there is no release/],
    ["nothing before the first", undefined, { releases: [releases[0]!] }, /no release before the current one is kept/],
    ["nothing published", undefined, { deployed: null, releases: [] }, /nothing is published yet/],
    [
      "one that a machine made up",
      undefined,
      { releases: [releases[0]!, { ...releases[1]!, id: "x; rm -rf /" }] },
      /status\.json names a release x; rm -rf \/, which is none/,
    ],
  ])("refused: %s", (_, wanted, says, told) => {
    expect(() => chosen(status(says), now, wanted)).toThrow(told);
  });
});

describe("what a machine answers", () => {
  const declared = { ...built, site } as unknown as Parameters<typeof tell>[1][number];
  const answer = (says: string) =>
    `pushgate 1 2026-11-24T10:00:00Z\nguard ${btoa("proven")}\nhook site 0 0 0\nstatus site ${btoa(says)}\nend\n`;
  const told = (says: string) => {
    const report = readAnswer("web1", answer(says), [{ name: "site", built: true }]);
    return tell({ host: web1 as unknown as Host, report }, [declared]).join("\n");
  };
  test.each<[name: string, says: Partial<Status>, told: RegExp]>([
    [
      "a head that is held back",
      { head: "d".repeat(40), held: "d".repeat(40) },
      /head +dddddddddddd, held back by a rollback/,
    ],
    [
      "an adoption that waits",
      { adoption: { release: "000001-adopted", files: ["old.html"], more: 2 } },
      /adoption +waits: 3 files .*: old\.html/,
    ],
    ["an escape sequence", { last: { ...status().last, reason: "\u001b[2Jgone" } }, /: \[2Jgone\n/],
  ])("%s", (_, says, line) => {
    expect(told(JSON.stringify(status(says)))).toMatch(line);
    expect(told(JSON.stringify(status(says)))).not.toContain("\u001b");
  });
  test.each([
    ["no status", '{"hook":1}', /^web1: site: its status\.json is not the builder's \(hook\)/],
    ["no JSON", "half a fi", /^web1: site: its status\.json is not the builder's \(no JSON\)/],
  ])("refused: %s", (_, says, line) => {
    expect(() => told(says)).toThrow(line);
  });
  test("refused: half an answer", () => {
    expect(() => readAnswer("web1", answer("{}").slice(0, -5), [])).toThrow(/^web1: what it answered is not whole/);
  });
});

test("the shell is plain POSIX", ({ skip }) => {
  const reason = missing("shellcheck", "dash");
  skip(reason !== undefined, reason);
  const asked = question([
    { name: "site", built: true },
    { name: "docs", built: false },
  ]);
  expect(lintShell(asked) + lintShell(rollbackScript("site", releases[0]!.id, 90))).toBe("");
});

test("times and sizes as a person reads them", () => {
  expect([340, 1_830, 45_000, 300_000, 3 * 3_600_000, 86_400_000, 12 * 86_400_000].map(duration)).toEqual([
    ...["340 ms", "1.8 s", "45 s", "5 min", "3 h", "1 day", "12 days"],
  ]);
  expect([0, 1023, 1536, 5 << 20, 3 * 2 ** 30].map(size)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
});
