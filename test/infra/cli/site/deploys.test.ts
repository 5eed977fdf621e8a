/** `npx pushgate deploys`: files as the builder writes them, also hostile ones, on fake hosts. */
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type Step, stepsOn, withSteps } from "../../../../infra/cli/site/progress.ts";
import { UserError } from "../../../../infra/user-error.ts";
import { placesOf } from "../../../../service/builder/places.ts";
import { beginRun, endRun } from "../../../../service/builder/run/runs.ts";
import { Run } from "../../../../service/builder/run/status.ts";
import { results } from "../../../../service/metrics/builds.ts";
import { builds, ends, Hosts, hookOf, hostOf } from "../hosts.ts";

const hosts = new Hosts();

const runs = "web1/var/lib/pushgate-sites/site/work/runs";
const commit = "0123456789".repeat(4);
const milliseconds = { fetch: 300, decide: 0, checkout: 40, dependencies: 0, build: 1200, publish: 60, total: 1600 };
const published = {
  ...{ result: "published", reason: "3 pages changed", commit, at: "2026-11-28T10:00:00.000Z" },
  ...{ trigger: ["delivery 72d3162e", "tick"], release: "000012-0123456789ab", pages: 61, milliseconds },
  ...{ subject: "Add the map", author: "Ada", warnings: ["a warning"] },
};
const failed = {
  ...{ ...published, result: "failed", reason: "a template is wrong", trigger: ["request of root (build)"] },
  ...{ commit: "b".repeat(40), failing: { attempts: 3 } },
};

function write(number: number, run: object, output = "", host = "web1", hook = "site"): void {
  const path = `var/lib/pushgate-sites/${hook}/work/runs/${String(number).padStart(9, "0")}.json`;
  hosts.write(`${host}/${path}`, `${JSON.stringify({ number, hook, ...run })}\n${JSON.stringify(output)}\n`);
}

/** Until the end of the test. */
function asTerminal(name: "stdout" | "stderr", value: boolean): void {
  const { isTTY } = process[name];
  Object.defineProperty(process[name], "isTTY", { value, configurable: true, writable: true });
  onTestFinished(() => void Object.assign(process[name], { isTTY }));
}

beforeEach(() => {
  for (const name of ["web1", "web2"]) hosts.add(name);
  hosts.configure(["web1", "web2"], [hookOf({ site: { webRoot: "/var/www/site" } })]);
  write(11, failed, "ERROR \x1b[31mhome.html\ufffd\nsecond line\n");
  write(12, published, "Start building sites …\n");
  write(3, published, "", "web2");
});

test("deploys has the newest run of each site and host first", async () => {
  const { code, stdout, stderr } = await hosts.run("deploys");
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout.replace(/\d+ \w+ ago/g, "1 h ago")).toBe(`site on web1
  12  published 1 h ago (2026-11-28T10:00:00Z) in 1.6 s
      0123456 Add the map by Ada
      delivery 72d3162e, timer
      3 pages changed
      61 pages as 000012-0123456789ab, fetch 300 ms, checkout 40 ms, build 1.2 s, publish 60 ms
  11  failed 1 h ago (2026-11-28T10:00:00Z) in 1.6 s, 3 failures in a row
      bbbbbbb Add the map by Ada
      request of root (build)
      a template is wrong
      fetch 300 ms, checkout 40 ms, build 1.2 s, publish 60 ms
site on web2
   3  published 1 h ago (2026-11-28T10:00:00Z) in 1.6 s
      0123456 Add the map by Ada
      delivery 72d3162e, timer
      3 pages changed
      61 pages as 000012-0123456789ab, fetch 300 ms, checkout 40 ms, build 1.2 s, publish 60 ms
`);
});

test.each([
  ["--failed", [11]],
  ["--last 1", [12, 3]],
  ["site --last 1 --host web1", [12]],
  ["show 72d3162e", [12, 3]],
  ["--host web2 show 72d3162e", [3]],
  ["--host web2 show 72d3162e --host web1", [12]],
])("deploys %s --json has the runs %j", async (words, numbers) => {
  const { code, stdout } = await hosts.run("deploys", ...words.split(" "), "--json");
  const found = JSON.parse(stdout) as { number: number; host: string }[];
  expect([code, found.map(({ number }) => number)]).toEqual([0, numbers]);
  expect(found[0]).toMatchObject({ hook: "site", milliseconds, ...(words.includes("show") && { output: /./ }) });
});

test("deploys show prints what Hugo printed as text, and fails for a run that is not there", async () => {
  const { stdout } = await hosts.run("deploys", "show", "11");
  expect(stdout).toMatch(/ {6}warning: a warning\n {6}ERROR \?\[31mhome.html\ufffd\n {6}second line\n$/);
  expect(await hosts.run("deploys", "show", "77")).toMatchObject(ends(1, "No such run"));
  expect(await hosts.run("deploys", "--failed", "--host", "web2")).toMatchObject(ends(0, "No such run"));
});

test("of 60 runs of every result that the builder writes, the last 50 are found by each kind of id", async () => {
  const folders = { spool: "", requests: "", rootRequests: "" };
  const places = placesOf({ site: hosts.at("web1/var/lib/pushgate-sites/site"), ...folders });
  rmSync(places.runs, { recursive: true });
  mkdirSync(places.runs);
  const made = Array.from({ length: 60 }, (_, i) => {
    const [result, commit] = [results[i % results.length]!, (i + 10).toString().repeat(20)];
    const release = `0000${i + 10}-${commit.slice(0, 12)}`;
    const run = new Run([]).end({ result, reason: "R", commit });
    if (i % 2 === 0) beginRun(places, commit, run);
    endRun(places, { hook: "site", ...run.last, release }, [{ kind: "delivery", name: `delivery id-${i + 1}` }], run);
    return { number: i + 1, result, commit, release };
  });
  const listed = await hosts.run("deploys", "--last", "50", "--host", "web1", "--json");
  expect(JSON.parse(listed.stdout)).toMatchObject(made.slice(10).reverse());
  for (const one of made.slice(-results.length))
    for (const word of [String(one.number), one.commit.slice(0, 9), `id-${one.number}`, one.release]) {
      const { stdout } = await hosts.run("deploys", "show", word, "--host", "web1", "--json");
      expect(JSON.parse(stdout), word).toMatchObject([one]);
    }
});

test("a build without its end runs while the builder does, and was interrupted otherwise", async () => {
  write(13, { ...published, result: "running" });
  hosts.add("web2", { units: { "pushgate-build@site.service": "loaded inactive dead success static" } });
  write(4, { ...published, result: "running" }, "", "web2");
  const { stdout } = await hosts.run("deploys", "--last", "1");
  expect(stdout).toMatch(/ {2}13 {2}running .*ago \(\S+\)\n/);
  expect(stdout).toMatch(/ {3}4 {2}failed [\s\S]*the build was interrupted\n/);
});

test("a host that does not answer fails the command after the others are printed, and so does a file of others", async () => {
  hosts.configure(["web1", "gone"], [hookOf({ site: { webRoot: "/var/www/site" } })]);
  expect(await hosts.run("deploys", "--last", "1")).toMatchObject(ends(1, "12  published", "gone"));
  hosts.write("web1/secret", "root:$6$hash:1:0\n");
  symlinkSync(hosts.at("web1/secret"), hosts.at(`${runs}/000000014.json`));
  mkdirSync(hosts.at(`${runs}/000000015.json`));
  expect((await hosts.run("deploys", "show", "12", "--host", "web1")).code).toBe(0);
  hosts.write(`${runs}/000000016.json`, "root:$6$hash:1:0\n");
  const hostile = await hosts.run("deploys", "--host", "web1");
  expect(hostile).toMatchObject(ends(1, "", "work/runs is not the builder's. Remove it."));
  expect(hostile.stdout + hostile.stderr).not.toContain("$6$");
});

test.each([
  ["published", 0, "web2: published: R\nweb2: warning: W\n", ""],
  ["failed", 1, "", "pushgate: web2: failed: R\nweb2: warning: W\n"],
])("build prints the run, what Hugo printed, and the result: %s", async (result, code, says, stderr) => {
  const last = { result, reason: "R", warnings: ["W"], trigger: ["request of root (build)"] };
  hosts.add("web2", { builder: builds(last) });
  write(4, published, "Start building sites …\n", "web2");
  const phases = "fetch 300 ms, checkout 40 ms, build 1\\.2 s, publish 60 ms";
  const stdout = expect.stringMatching(new RegExp(`${phases}\n.*\n {6}Start building sites …\n${says}$`));
  expect(await hosts.run("build", "site", "--host", "web2")).toEqual({ code, stdout, stderr });
});

test("status --watch prints the status again until it is stopped, in a terminal in place of the former one", async () => {
  const sleep = vi.spyOn(timers, "setTimeout");
  syncBuiltinESMExports();
  for (const isTerminal of [false, true]) {
    sleep.mockResolvedValueOnce(undefined).mockRejectedValueOnce(new UserError("stopped"));
    asTerminal("stdout", isTerminal);
    const { stdout, stderr } = await hosts.run("status", "--watch");
    const cleared = isTerminal ? "\\x1b\\[H\\x1b\\[2J" : "";
    const printed = `${cleared}pushgate \\S+\\n[^\\x1b]*\\n(No faults\\.|Faults:[^\\x1b]*)\\n`;
    expect(stdout).toMatch(new RegExp(`^(${printed}){2}$`));
    expect(stderr).toBe("pushgate: stopped\n");
  }
  vi.restoreAllMocks();
  syncBuiltinESMExports();
});

test("deploys connects once to a host, which starts three programs a site, however many runs it has", async () => {
  const names = ["site", "docs"];
  const site = { webRoot: "/var/www/site" };
  hosts.configure(["web1"], [hookOf({ site }), hookOf({ name: "docs", site })]);
  for (const name of names)
    for (let number = 1; number <= 50; number++) write(number, published, "x".repeat(20_000), "web1", name);
  for (const program of ["find", "sort", "xargs", "sed", "tr", "cat", "ls", "head", "base64", "systemctl"]) {
    const run = program === "systemctl" ? ":" : `exec /usr/bin/${program} "$@"`;
    hosts.program(`web1/bin/${program}`, `echo ${program} >>${hosts.at("web1/started")}\n${run}`);
  }
  const { code, stdout } = await hosts.run("deploys", "--json");
  const found = JSON.parse(stdout) as { number: number }[];
  expect([code, found.map(({ number }) => number)]).toEqual([0, names.flatMap(() => [50, 49, 48, 47, 46])]);
  const started = hosts.read("web1/started").trim().split("\n").sort();
  // One of base64, and systemctl, for the builders' states.
  expect(started.join(" ")).toBe("base64 base64 base64 head head head head systemctl");
  expect(hosts.connections("web1")).toBe(1);
});

test("a build's steps are printed while it runs, as text, and whether or not the host can be followed", async () => {
  const step = { hook: "site", commit, step: "build\x1b[2J" };
  const printed = { hook: "site", commit, output: "Start building\nWARN \x1b[2J\n" };
  const of = [step, { ...step, hook: "other" }, printed, { hook: "site" }, { hook: "site", ...published }];
  const entries = of.map((one) => ({ MESSAGE: JSON.stringify(one), _SYSTEMD_UNIT: "pushgate-build@site.service" }));
  const lines = entries.map((entry) => `j ${JSON.stringify(entry)}`);
  hosts.write("web1/journal", ["pushgate: begin", ...lines, "j broken\n"].join("\n"));
  hosts.program("bin/ssh", `cat ${hosts.at("web1/journal")} && exec sleep 60`);
  vi.stubEnv("PATH", `${hosts.at("bin")}:${process.env.PATH}`);
  const host = { ...hostOf("web1"), sudo: false };
  const found: Step[] = [];
  for await (const step of stepsOn(host, ["site"])) if (found.push(step) === 3) break;
  const none = { host: "web1", hook: "site", step: "", at: "", output: "", isEnd: false };
  expect(found).toEqual([
    { ...none, step: "build?[2J" },
    { ...none, output: "Start building\nWARN ?[2J\n" },
    { ...none, step: "published", at: published.at, isEnd: true },
  ]);

  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const exit = vi.spyOn(process, "exit").mockReturnValue(undefined as never);
  await withSteps([host], "site", async () => process.listeners("SIGINT").at(-1)!("SIGINT"));
  const left = "The hosts go on with it: npx pushgate deploys --follow shows how.";
  expect([exit.mock.calls, errors.mock.calls]).toEqual([[[130]], expect.arrayContaining([[left]])]);
  errors.mockClear();
  const texts = ["site on web1: build?[2J", "site on web1 | Start building", "site on web1 | WARN ?[2J"];
  await withSteps([host], "site", async (rest) => {
    await expect.poll(() => errors.mock.calls).toEqual(texts.map((text) => [text]));
    const run = { host: "web1", hook: "site", output: "Start building\nWARN ?[2J" };
    expect(rest([run, { ...run, hook: "other" }]).map(({ output }) => output)).toEqual(["", run.output]);
  });
  const drawn = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  asTerminal("stderr", true);
  const seen = () => drawn.mock.calls.map(([text]) => String(text).replace(/\d+ m?s/, "1 s"));
  await withSteps([host], "site", () => expect.poll(seen).toContain("\r\x1b[2Ksite on web1: build?[2J 1 s"));
  rmSync(hosts.at("web1/journal"));
  expect(await withSteps([host], "site", async () => 7)).toBe(7);
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});
