/** What is collected and how it is served, in the test's process; process.test.ts of the receiver has its bundle on inherited sockets. */
import { execFileSync, spawn } from "node:child_process";
import { constants, mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { type AddressInfo, Server } from "node:net";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createMetrics } from "../../../service/metrics/metrics.ts";
import { createMetricsServer } from "../../../service/metrics/server.ts";
import { openIn } from "../open-files.ts";
import { onFolder, folder as root } from "../own-folder.ts";
import { exchange } from "../receiver/harness.ts";

/** Flags with which the receiver opens no file, to remove a protection. */
const fake = vi.hoisted(() => ({ without: 0 }));
vi.mock("node:fs", async (importOriginal) => {
  const real = await importOriginal<typeof import("node:fs")>();
  return { ...real, openSync: (path: string, flags: number) => real.openSync(path, flags & ~fake.without) };
});

const docs = { name: "docs", gitHost: "github", branch: "main" } as const;
let metrics: ReturnType<typeof createMetrics>;
onFolder();
beforeEach(() => {
  fake.without = 0;
  for (const hook of ["site", "docs"]) mkdirSync(join(root, "spool", hook), { recursive: true });
  const hooks = [{ ...docs, name: "site", statusFile: join(root, "status.json") }, docs];
  metrics = createMetrics({ spool: join(root, "spool"), hooks });
});

const spoolFile = (name: string) => join(root, "spool", name);
/** The lines of samples that begin so, without the beginning. */
function samples(beginning: string): string[] {
  const lines = metrics
    .collect()
    .split("\n")
    .filter((line) => line.startsWith(beginning));
  return lines.map((line) => line.slice(beginning.length));
}

test("each status counts under its reason, of the hook where there is one", () => {
  const reasons = {
    ...{ 0: "connections", 400: "payload", 401: "signature", 404: "path", 405: "method", 408: "slow", 413: "size" },
    ...{ 415: "content_type", 418: "other", 429: "limit", 431: "headers", 499: "sender_left", 500: "error" },
    503: "spool",
  };
  for (const status of Object.keys(reasons)) {
    metrics.count({ hook: "site", status: Number(status) });
    metrics.count({ hook: null, status: Number(status) });
    metrics.count({ hook: null, status: Number(status) });
  }
  metrics.count({ hook: "unknown", status: 401 });
  const of = (labels: string, count: number) =>
    Object.values(reasons).map((reason) => `{${labels}reason="${reason}"} ${count}`);
  const expected = [...of('hook="site",', 1), ...of('hook="docs",', 0), ...of("", 2)];
  expect(samples("pushgate_requests_rejected_total").sort()).toEqual(expected.sort());
});

test("202 counts as accepted, 200 as ignored, of a configured hook only", () => {
  for (const status of [202, 202, 200]) metrics.count({ hook: "docs", status });
  for (const status of [202, 200]) for (const hook of ["unknown", null]) metrics.count({ hook, status });
  expect(samples("pushgate_deliveries_accepted_total")).toEqual(['{hook="site"} 0', '{hook="docs"} 2']);
  expect(samples("pushgate_deliveries_ignored_total")).toEqual(['{hook="site"} 0', '{hook="docs"} 1']);
});

test("the spool's files count, with the age of the oldest; hidden ones do not", () => {
  const now = Date.now() / 1000;
  for (const [name, age] of Object.entries({ a: 100, b: 500, c: 10, ".half": 9_000 })) {
    writeFileSync(spoolFile(`site/${name}`), "");
    utimesSync(spoolFile(`site/${name}`), now - age, now - age);
  }
  writeFileSync(spoolFile("docs/ends-in-a-dot."), "");
  // A clock that was set back.
  utimesSync(spoolFile("docs/ends-in-a-dot."), now + 900, now + 900);
  expect(samples("pushgate_spool_deliveries")).toEqual(['{hook="site"} 3', '{hook="docs"} 1']);
  const [site = "", docs] = samples("pushgate_spool_oldest_seconds");
  const age = Number(/^\{hook="site"\} ([\d.]+)$/.exec(site)?.[1]);
  expect([age >= 500, age < 560, docs]).toEqual([true, true, '{hook="docs"} 0']);
});

test("a file that is gone before its age is read counts, as one of this moment", () => {
  // Node names it with U+FFFD, and finds no file of that name.
  writeFileSync(Buffer.concat([Buffer.from(spoolFile("site/")), Buffer.from([0xff])]), "");
  expect(samples("pushgate_spool_deliveries")).toEqual(['{hook="site"} 1', '{hook="docs"} 0']);
  const [site = ""] = samples("pushgate_spool_oldest_seconds");
  expect(Number(/^\{hook="site"\} ([\d.e-]+)$/.exec(site)?.[1])).toBeLessThan(60);
});

test("of a folder with more than 10,000 files, 10,000 count", () => {
  execFileSync("sh", ["-c", "seq 10001 | xargs touch"], { cwd: spoolFile("site") });
  expect(samples("pushgate_spool_deliveries")).toEqual(['{hook="site"} 10000', '{hook="docs"} 0']);
});

test("a hook whose folder is gone has no line of the spool", () => {
  rmSync(spoolFile("site"), { recursive: true });
  expect(samples("pushgate_spool")).toEqual(['_deliveries{hook="docs"} 0', '_oldest_seconds{hook="docs"} 0']);
});

describe("of a status.json", () => {
  const good = { runs: { published: 5, "rolled back": 2 }, succeeded: "2026-11-21T07:00:00.000Z" };
  const write = (status: unknown, name = "status.json") => writeFileSync(join(root, name), JSON.stringify(status));

  test("each kind of run, the failures and the last success are reported", () => {
    write({ ...good, failing: { attempts: 3 } });
    const counts = Object.entries({ published: 5, nothing: 0, failed: 0, rejected: 0, rolled_back: 2 });
    const builds = counts.map(([result, count]) => `{hook="site",result="${result}"} ${count}`);
    expect(samples("pushgate_builds_total")).toEqual(builds);
    expect(samples("pushgate_build_failures")).toEqual(['{hook="site"} 3']);
    const last = samples("pushgate_last_success_timestamp_seconds");
    expect(last).toEqual([`{hook="site"} ${Date.parse(good.succeeded) / 1000}`]);
  });

  test("a site that was never published has no last success", () => {
    write({ ...good, succeeded: null });
    expect(metrics.collect()).not.toContain("pushgate_last_success");
  });

  test.each<[string, unknown]>([
    ["without runs", { succeeded: null }],
    ["with a run of another kind", { ...good, runs: { exploded: 1 } }],
    ["with half a run", { ...good, runs: { published: 1.5 } }],
    ["with less than no run", { ...good, runs: { published: -1 } }],
    ["with a count as text", { ...good, runs: { published: "1" } }],
    ["without a last success", { runs: {} }],
    ["with a last success that is no time", { ...good, succeeded: "yesterday" }],
    ["with failures that are no number", { ...good, failing: { attempts: "3" } }],
    ["of one byte over 256 KiB", { ...good, more: "x".repeat((256 << 10) + 1 - JSON.stringify(good).length - 10) }],
  ])("one %s has no metric", (_, status) => {
    write(status);
    expect(metrics.collect()).not.toMatch(/builds_total|build_failures|last_success/);
    expect(openIn(root)).toEqual([]);
  });

  const pipe = () => execFileSync("mkfifo", [join(root, "status.json")]);
  const link = () => {
    write(good, "other.json");
    symlinkSync(join(root, "other.json"), join(root, "status.json"));
  };
  test.each<[string, () => void]>([
    ["a pipe that never ends", pipe],
    ["a link to a status", link],
    ["a folder", () => mkdirSync(join(root, "status.json"))],
    ["no JSON", () => writeFileSync(join(root, "status.json"), "{")],
  ])("%s in its place has no metric, and all others stay", (_, make) => {
    make();
    const text = metrics.collect();
    expect(text).toContain('pushgate_deliveries_accepted_total{hook="site"} 0\n');
    expect(text).not.toMatch(/builds_total|build_failures|last_success/);
  });

  test("without a flag the receiver would follow a link", () => {
    fake.without = constants.O_NOFOLLOW;
    link();
    expect(samples("pushgate_build_failures")).toEqual(['{hook="site"} 0']);
  });

  test("without a flag the receiver would wait for a pipe", () => {
    fake.without = constants.O_NONBLOCK;
    pipe();
    const began = performance.now();
    spawn("sh", ["-c", 'sleep 0.3; : >"$1"', "sh", join(root, "status.json")]);
    metrics.collect();
    expect(performance.now() - began).toBeGreaterThan(250);
  });

  test("one of exactly 256 KiB is read, and the file is closed again", () => {
    write({ ...good, more: "x".repeat((256 << 10) - JSON.stringify(good).length - 10) });
    expect(samples("pushgate_build_failures")).toEqual(['{hook="site"} 0']);
    expect(openIn(root)).toEqual([]);
  });
});

test("docs/metrics.md names each metric with its type and labels, each reason and result; none is there without a sample", () => {
  metrics = createMetrics({ spool: join(root, "spool"), hooks: [] });
  expect(metrics.collect().match(/^# .*/gm)).toEqual([
    "# HELP pushgate_requests_rejected_total Requests that the receiver rejected. Without a hook: those to no hook.",
    "# TYPE pushgate_requests_rejected_total counter",
  ]);
  metrics = createMetrics({ spool: join(root, "spool"), hooks: [{ ...docs, statusFile: join(root, "status.json") }] });
  writeFileSync(join(root, "status.json"), JSON.stringify({ runs: {}, succeeded: "2026-11-21T07:00:00.000Z" }));
  const text = metrics.collect();
  const page = readFileSync(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
  const matched = (in_: string, pattern: RegExp) => [...in_.matchAll(pattern)].map(([, ...words]) => words.join(" "));
  const labelsOf = (name: string) =>
    new Set(text.split("\n").flatMap((line) => (line.startsWith(`${name}{`) ? matched(line, /(\w+)="/g) : [])));
  const described = matched(text, /^# HELP (\w+) [A-Z].*\.\n# TYPE \1 (\w+)$/gm).map((one) => {
    const [name = ""] = one.split(" ");
    return `${one} ${[...labelsOf(name)].map((label) => `\`${label}\``).join(", ")}`;
  });
  expect(described.sort()).toEqual(matched(page, /^\| `(pushgate_\w+)` \| (\w+) \| (.*?) \|/gm).sort());
  for (const label of ["reason", "result"]) {
    const [listed = ""] = matched(page, new RegExp(`^- \`${label}\` is one of ([^.]*)\\.`, "gm"));
    expect(new Set(matched(text, new RegExp(`${label}="(\\w+)"`, "g")))).toEqual(new Set(matched(listed, /`(\w+)`/g)));
  }
});

test("the server answers another path with 404, another method with 405, and a fault with 500", async () => {
  const collect = vi.fn(() => "collected\n");
  const server = createMetricsServer(collect);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const ask = (line: string) => exchange(port, [`${line} HTTP/1.1\r\n\r\n`]);
  expect(await ask("GET /")).toMatchObject({ status: 404, body: "The metrics are at /metrics.\n" });
  expect(await ask("POST /metrics")).toMatchObject({ status: 405, body: "", headers: { allow: "GET" } });
  const headers = { "content-type": "text/plain; version=0.0.4; charset=utf-8", connection: "close" };
  expect(await ask("GET /metrics")).toMatchObject({ status: 200, body: "collected\n", headers });
  collect.mockImplementation(() => {
    throw new Error("no");
  });
  expect(await ask("GET /metrics")).toMatchObject({ status: 500, body: "" });
});

test("each socket that is handed over is served, and listens before the receiver goes on", async () => {
  let open = 0;
  const listen = vi.spyOn(Server.prototype, "listen").mockImplementation(function (this: Server) {
    setImmediate(() => this.emit("listening", ++open));
    return this;
  });
  await metrics.serve([3, 4]);
  expect([open, listen.mock.calls]).toEqual([2, [[{ fd: 3 }], [{ fd: 4 }]]]);
  listen.mockRestore();
});
