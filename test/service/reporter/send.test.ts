/** The reporter against the git hosts' APIs: what it sends, tries again and drops, and that a build never waits for it. */
import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { add, type Report, waiting } from "../../../service/builder/outbox.ts";
import type { GitHostName } from "../../../service/git-hosts/index.ts";
import { channelsOf } from "../../../service/reporter/channels.ts";
import { type Channels, type Line, sendAll, type Terms, terms } from "../../../service/reporter/send.ts";
import type { ReporterSettings } from "../../../service/reporter/settings.ts";
import { readReporter } from "../../../service/reporter/settings.ts";
import { SettingsFault } from "../../../service/settings.ts";
import { type RunningApi, startStatusApi } from "../../fakes/status-api.ts";
import { anywhere, bundled } from "../bundles.ts";

const [one, two] = ["1".repeat(40), "2".repeat(40)] as const;
const site = "https://www.example.org/";
const quick: Terms = { first: 20, longest: 80, age: 60_000, look: 10, answer: 5 };

let running: RunningApi;
let folder: string;
let lines: Line[];
beforeAll(async () => {
  running = await startStatusApi();
});
afterAll(() => running.close());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pushgate-outbox-"));
  lines = [];
  const { api } = running;
  for (const key of Object.keys(api.faults)) delete api.faults[key as keyof typeof api.faults];
  for (const list of [api.results, api.notifications]) list.length = 0;
  api.commits.clear();
  api.requests = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Polls for as long as a busy computer needs. */
const soon = (look: () => unknown) => expect.poll(look, { timeout: 30_000 });

const put = (report: Partial<Report> = {}) =>
  add(folder, {
    to: "status",
    commit: one,
    state: "success",
    reason: "Published.",
    at: new Date().toISOString(),
    ...report,
  });

type Given = {
  readonly gitHost?: GitHostName;
  readonly path?: string;
  readonly token?: string;
  readonly notify?: string;
};

/** Of a repository at the fake; a public service's own API is at the fake, too. */
function channels({
  gitHost = "gitea",
  path = "example/site",
  token = running.api.token,
  notify,
}: Given = {}): Channels {
  const origin = gitHost === "github" ? "https://github.com" : running.origin;
  const settings: ReporterSettings = {
    ...{ hook: "site", folder, site },
    status: { gitHost, repository: `${origin}/${path}.git`, context: "pushgate/web1/site" },
    ...(notify !== undefined && { notify: `${running.origin}${notify}` }),
  };
  const made = channelsOf({ settings, secrets: { status: token, notify: running.api.key } });
  const here = (url: string) => url.replace(/^https:\/\/api\.(github\.com|bitbucket\.org)/, running.origin);
  const { status } = made;
  const postOf = (report: Report) => {
    const post = status!.postOf(report);
    return post && { ...post, url: here(post.url) };
  };
  return { ...made, status: { ...status!, postOf } };
}

const always = async () => true;
const send = (to: Channels = channels(), terms: Terms = quick) =>
  sendAll(folder, to, (line) => void lines.push(line), always, terms, running.ca);

describe("a result", () => {
  test.each<[GitHostName, string, string]>([
    ["github", "example/site", "success"],
    ["gitlab-self-managed", "group/sub/site", "success"],
    ["gitea", "example/site", "success"],
    ["forgejo", "git/example/site", "success"],
    ["bitbucket", "example/site", "SUCCESSFUL"],
    ["bitbucket-data-center", "scm/PROJ/site", "SUCCESSFUL"],
  ])("is taken by the API of %s, as long as a reason can be", async (gitHost, path, state) => {
    put({ reason: "x".repeat(500) });
    expect(await send(channels({ gitHost, path }))).toBe(true);
    expect(lines).toMatchObject([{ to: "status", result: "sent", commit: one, state: "success" }]);
    const [result] = running.api.results;
    expect(result).toMatchObject({ commit: one, state, context: "pushgate/web1/site", url: site });
    expect(result!.description).toMatch(/^x{100,}…$/);
    expect(waiting(folder)).toEqual([]);
  });

  test("of a commit that has a newer one is not sent, and results of several commits are sent in their order", async () => {
    put({ state: "pending", reason: "The build runs." });
    put({ commit: two, state: "pending" });
    put();
    await send();
    expect(running.api.results.map(({ commit, state }) => [commit, state])).toEqual([
      [two, "pending"],
      [one, "success"],
    ]);
  });

  test("without a commit is not sent to the git host", async () => {
    put({ commit: null });
    expect(await send()).toBe(true);
    expect(running.api.requests).toBe(0);
  });

  test.each([
    ["a wrong token", { token: "wrong-0123456789abcdefghij" }, 401],
    ["a token that may only read", { token: "reader-0123456789abcdefghij" }, 403],
  ])("that is rejected for %s is dropped after one try", async (_, given, status) => {
    put();
    expect(await send(channels(given))).toBe(false);
    expect(lines).toMatchObject([{ result: "dropped", reason: expect.stringMatching(`^${status} `) }]);
    expect([running.api.requests, waiting(folder).length]).toEqual([1, 0]);
  });

  test.each<[GitHostName, number]>([
    ["github", 422],
    ["gitea", 404],
  ])("of a commit that %s does not know is dropped with its answer, %i", async (gitHost, status) => {
    running.api.commits.add(two);
    put();
    put({ commit: two });
    expect(await send(channels({ gitHost }))).toBe(false);
    expect(lines).toMatchObject([
      { result: "dropped", reason: `${status} {"message":"No commit found for SHA: ${one}"}` },
      { result: "sent", commit: two },
    ]);
  });

  test.each([500, 502, 503, 408, 429])(
    "that is answered with %i is tried again, after pauses that grow",
    async (status) => {
      Object.assign(running.api.faults, { status });
      put();
      const tried = send();
      await soon(() => lines.length).toBeGreaterThanOrEqual(3);
      delete running.api.faults.status;
      expect(await tried).toBe(true);
      expect(lines.at(-1)).toMatchObject({ result: "sent" });
      expect(lines[0]).toMatchObject({
        result: "delayed",
        reason: expect.stringMatching(`^${status}; the next try is in`),
      });
    },
  );

  test("is tried again while the server is gone, and dropped after a day", async () => {
    const gone = await startStatusApi();
    await gone.close();
    const settings = {
      hook: "site",
      folder,
      status: { gitHost: "gitea", repository: `${gone.origin}/a/b.git`, context: "x" },
    };
    const to = channelsOf({ settings: settings as ReporterSettings, secrets: { status: "0123456789abcdefghij" } });
    put();
    put({ commit: two, at: new Date(Date.now() - 24 * 3_600_000 - 1_000).toISOString() });
    const tried = sendAll(
      folder,
      to,
      (line) => void lines.push(line),
      always,
      { ...quick, age: 24 * 3_600_000 },
      gone.ca,
    );
    await soon(() => lines.find(({ result }) => result === "dropped")).toMatchObject({
      commit: two,
      reason: expect.stringMatching(/ECONNREFUSED.*, for 24 h$/),
    });
    expect(lines[0]).toMatchObject({ result: "delayed", commit: one });
    for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
    expect(await tried).toBe(false);
  });

  /** `at`: the time of the test, as the rows are made long before it. */
  test.each<[string, number, (at: number) => Record<string, string>, number]>([
    ["429 and Retry-After in seconds", 429, () => ({ "retry-after": "77" }), 77],
    ["403 and Retry-After", 403, () => ({ "retry-after": "60" }), 60],
    ["Retry-After as a date", 503, (at) => ({ "retry-after": new Date(at + 900_000).toUTCString() }), 900],
    [
      "403 at the end of GitHub's rate",
      403,
      (at) => ({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(Math.floor(at / 1000) + 600) }),
      600,
    ],
    ["a year, of which an hour counts", 429, () => ({ "retry-after": "31536000" }), 3600],
  ])("waits as long as the API says: %s", async (_, status, headers, seconds) => {
    Object.assign(running.api.faults, { status, headers: headers(Date.now()) });
    put();
    const tried = send();
    await soon(() => lines.length).toBe(1);
    const said = Number(/the next try is in (\d+) s$/.exec(lines[0]!.reason)?.[1]);
    expect(said <= seconds && said > seconds - 30, `${said}`).toBe(true);
    expect(running.api.requests).toBe(1);
    for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
    expect(await tried).toBe(true);
  });

  test("is dropped at another rejection, also where the API names a pause", async () => {
    Object.assign(running.api.faults, { status: 400, headers: { "retry-after": "60" } });
    put();
    expect(await send()).toBe(false);
  });

  test.each<Record<string, string>>([
    { "x-ratelimit-remaining": "9" },
    { "retry-after": "0" },
    { "retry-after": "" },
    { "x-ratelimit-remaining": "0" },
  ])("403 without a pause (%j) is a rejection", async (headers) => {
    Object.assign(running.api.faults, { status: 403, headers });
    put();
    expect(await send()).toBe(false);
  });

  test.each(["hangs", "trickles"] as const)("a server that %s is left after the time for an answer", async (fault) => {
    running.api.faults[fault] = true;
    put();
    const tried = send(channels(), { ...quick, answer: 0.2 });
    await soon(() => lines.at(0)?.reason).toMatch(/^no answer within 0\.2 s/);
    delete running.api.faults[fault];
    expect(await tried).toBe(true);
  });

  test("a redirect is not followed, so that the token goes nowhere else", async () => {
    const other = await startStatusApi();
    Object.assign(running.api.faults, {
      status: 307,
      headers: { location: `${other.origin}/api/v1/repos/a/b/statuses/${one}` },
    });
    put();
    expect(await send()).toBe(false);
    expect(lines).toMatchObject([{ result: "dropped", reason: "307, a redirect, which is not followed" }]);
    expect(other.api.requests).toBe(0);
    await other.close();
  });

  test("an answer is bounded, and neither its control characters nor the token reach the journal", async () => {
    const { token } = running.api;
    Object.assign(running.api.faults, { status: 400, text: `\u001b[31m${token}\u202e\n${"x".repeat(1 << 20)}` });
    put();
    expect(await send()).toBe(false);
    const [{ reason }] = lines as [Line];
    expect(reason).not.toContain(token);
    expect(reason).toMatch(/^400 \?\[31m…\? x+…$/);
    expect(reason.length).toBeLessThan(310);
  });

  test("a certificate of an unknown authority is no git host's", async () => {
    put();
    const tried = sendAll(folder, channels(), (line) => void lines.push(line), always, quick);
    await soon(() => lines.at(0)?.result).toBe("delayed");
    expect(running.api.results).toEqual([]);
    for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
    await tried;
  });
});

test.each([
  [200, "sent", "200"],
  [299, "sent", "299"],
  [300, "dropped", "300, a redirect, which is not followed"],
  [399, "dropped", "399, a redirect, which is not followed"],
  [400, "dropped", "400 no such thing"],
  [410, "dropped", "410 no such thing"],
  [499, "dropped", "499 no such thing"],
])("a result that is answered with %i is %s, and the journal has: %s", async (status, result, reason) => {
  Object.assign(running.api.faults, { status, text: "  no \n\t such thing\n" });
  put();
  expect(await send()).toBe(result === "sent");
  expect(lines).toEqual([
    { to: "status", host: new URL(running.origin).host.split(":")[0], state: "success", commit: one, result, reason },
  ]);
});

test("the pause doubles up to the longest, and begins anew after a report that was sent", async () => {
  Object.assign(running.api.faults, { status: 503 });
  put();
  put({ commit: two });
  const { status } = channels();
  // The second result never gets an answer.
  const postOf = (report: Report) => ({
    ...status!.postOf(report)!,
    ...(report.commit === two && { url: "https://localhost:1/" }),
  });
  const tried = send({ status: { ...status!, postOf } }, { ...quick, first: 400, longest: 1_500 });
  await soon(() => lines.length).toBe(3);
  delete running.api.faults.status;
  await soon(() => lines.length).toBe(5);
  for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
  await tried;
  const said = lines.map(({ reason }) => reason.replace(/^.*; the next try is in /, ""));
  expect(said).toEqual(["1 s", "1 s", "2 s", "201", "1 s"]);
});

test("the pauses are 5 s to 15 min, and a result is dropped after more than 24 h without an answer", async () => {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const { status } = channels();
  const postOf = (report: Report) => ({ ...status!.postOf(report)!, url: "https://localhost:1/" });
  const pauses: number[] = [];
  // At the last but one try, exactly 24 h old.
  put({ at: new Date(Date.now() - 525_000).toISOString() });
  const journal = (line: Line) => {
    lines.push(line);
    const [, seconds] = /; the next try is in (\d+) s$/.exec(line.reason) ?? [];
    if (seconds === undefined) return;
    pauses.push(Number(seconds));
    vi.advanceTimersByTime(Number(seconds) * 1000);
  };
  expect(
    await sendAll(folder, { status: { ...status!, postOf } }, journal, always, { ...terms, look: 1 }, running.ca),
  ).toBe(false);
  expect(pauses).toEqual([5, 10, 20, 40, 80, 160, 320, 640, ...Array(95).fill(900)]);
  expect(lines.at(-1)).toMatchObject({ result: "dropped", reason: expect.stringMatching(/, for 24 h$/) });
});

describe("between two looks into the outbox", () => {
  const rare = { ...quick, look: 60_000 };

  test("the reporter waits only where a result waits", { timeout: 10_000 }, async () => {
    put();
    expect(await send(channels(), rare)).toBe(true);
    writeFileSync(join(folder, "unknown"), "");
    expect(await send(channels(), rare)).toBe(false);
  });

  test("a result that arrives while another one is sent does not wait", { timeout: 10_000 }, async () => {
    put();
    const journal = (line: Line) => {
      lines.push(line);
      if (lines.length === 1) put({ commit: two });
    };
    expect(await sendAll(folder, channels(), journal, always, rare, running.ca)).toBe(true);
    expect(lines.map(({ commit, result }) => [commit, result])).toEqual([
      [one, "sent"],
      [two, "sent"],
    ]);
  });
});

test("a report to a recipient that is no longer configured is removed, and the others are sent", async () => {
  put({ to: "notify" });
  put();
  expect(await send()).toBe(true);
  expect(lines).toMatchObject([{ to: "status", result: "sent" }]);
  expect(waiting(folder)).toEqual([]);
});

describe("a recipient", () => {
  const status = { gitHost: "gitea", repository: "https://git.example.net/a/b.git", context: "x" } as const;
  const notify = "https://example.net:8443/hook";
  const [token, key] = ["0123456789abcdefghij", `whsec_${Buffer.alloc(32, 7).toString("base64")}`];

  test("exists where it is configured and has its secret, and takes nothing where it has no API", () => {
    const of = (settings: object, secrets: object) =>
      Object.keys(channelsOf({ settings: { hook: "site", folder, ...settings }, secrets }));
    expect(of({ status, notify }, { status: token, notify: key })).toEqual(["status", "notify"]);
    expect(of({ status, notify }, { status: token })).toEqual(["status"]);
    expect(of({ status, notify }, { notify: key })).toEqual(["notify"]);
    expect(of({}, { status: token, notify: key })).toEqual([]);
    // Gogs has no such API.
    const settings = { hook: "site", folder, status: { ...status, gitHost: "gogs" as const } };
    const { status: gogs } = channelsOf({ settings, secrets: { status: token } });
    expect(gogs!.postOf({ to: "status", commit: one, state: "success", reason: "", at: "" })).toBeUndefined();
  });

  test("of a site that another web server serves gets no address of it", () => {
    const { status: set, notify: told } = channelsOf({
      settings: { hook: "site", folder, status, notify },
      secrets: { status: token, notify: key },
    });
    const report = {
      to: "status",
      commit: one,
      state: "success",
      reason: "Published.",
      at: "2026-11-23T12:00:00.000Z",
    } as const;
    expect(JSON.parse(set!.postOf(report)!.body)).toEqual({
      state: "success",
      context: "x",
      description: "Published.",
    });
    expect(JSON.parse(told!.postOf(report)!.body)).toEqual({
      hook: "site",
      site: null,
      state: "succeeding",
      commit: one,
      reason: "Published.",
      time: report.at,
    });
    expect([set!.host, told!.host]).toEqual(["git.example.net", "example.net:8443"]);
    expect([set!.secret, told!.secret]).toEqual([token, key]);
    expect(told!.postOf({ ...report, state: "failure" })!.body).toContain('"state":"failing"');
  });
});

describe("site.notify", () => {
  test("gets the newest turn, signed, and the same id at each try", async () => {
    const notify = { to: "notify", commit: one } as const;
    put({ ...notify, commit: two, state: "failure", reason: "an older one" });
    put({ ...notify, state: "failure", reason: "Hugo failed." });
    Object.assign(running.api.faults, { status: 503 });
    const tried = send(channels({ notify: "/hooks/builds" }));
    await soon(() => lines.length).toBeGreaterThan(0);
    delete running.api.faults.status;
    expect(await tried).toBe(true);
    put({ ...notify, state: "success", reason: "changed: layouts/index.html" });
    await send(channels({ notify: "/hooks/builds" }));
    expect(running.api.notifications).toMatchObject([
      { hook: "site", site, state: "failing", commit: one, reason: "Hugo failed." },
      { hook: "site", site, state: "succeeding", commit: one },
    ]);
    const [first, second] = running.api.notifications;
    expect(first!.id).toMatch(/^msg_[0-9a-f]{32}$/);
    expect(second!.id).not.toBe(first!.id);
    const age = Date.now() - Date.parse(first!.time!);
    expect([age >= 0, age < 60_000]).toEqual([true, true]);
  });

  test("signed with another key is rejected", async () => {
    const to = channelsOf({
      settings: { hook: "site", folder, notify: `${running.origin}/hooks/builds` },
      secrets: { notify: `whsec_${Buffer.alloc(32, 8).toString("base64")}` },
    });
    put({ to: "notify" });
    expect(await send(to)).toBe(false);
    expect(running.api.notifications).toEqual([]);
  });

  test("is sent while the git host is dead, and the other way round", async () => {
    put();
    put({ to: "notify" });
    const { postOf } = channels({ notify: "/hooks/builds" }).status!;
    const dead = {
      host: "dead",
      secret: "x",
      postOf: (report: Report) => ({ ...postOf(report)!, url: "https://localhost:1/" }),
    };
    const to = channels({ notify: "/hooks/builds" });
    const tried = send({ ...to, status: dead });
    await soon(() => running.api.notifications.length).toBe(1);
    put({ to: "notify" });
    await soon(() => running.api.notifications.length).toBe(2);
    for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
    await tried;
  });
});

describe("the outbox", () => {
  test("is bounded, keeps its order, and a half-written report is none", () => {
    for (let i = 1; i <= 500; i += 1) writeFileSync(join(folder, `${i}.json`.padStart(14, "0")), "");
    for (const reason of ["one", "two", "three"]) put({ reason });
    writeFileSync(join(folder, ".new"), '{"to":');
    const found = waiting(folder);
    expect([found.length, `${found[0]!.name}`, `${found.at(-1)!.name}`]).toEqual([
      500,
      "000000004.json",
      "000000503.json",
    ]);
    expect(found.slice(-3).map(({ report }) => report?.reason)).toEqual(["one", "two", "three"]);
  });

  test.each<[string, object]>([
    ["another recipient", { to: "mail" }],
    ["a commit of 39 digits", { commit: "1".repeat(39) }],
    ["a commit of 41 digits", { commit: "1".repeat(41) }],
    ["a commit of 65 digits", { commit: "1".repeat(65) }],
    ["a commit in capitals", { commit: "A".repeat(40) }],
    ["no commit", { commit: undefined }],
    ["another state", { state: "done" }],
    ["a reason of two lines", { reason: "one\ntwo" }],
    ["a reason with a line separator", { reason: "one\u2028two" }],
    ["a reason with a paragraph separator", { reason: "one\u2029two" }],
    ["a reason of 502 characters", { reason: "x".repeat(502) }],
    ["a day without a time", { at: "2026-11-23" }],
  ])("reads no report with %s", (_, wrong) => {
    put(wrong);
    expect(waiting(folder)).toEqual([{ name: Buffer.from("000000001.json"), report: undefined }]);
  });

  test.each<[string, Partial<Report>]>([
    ["without a commit", { commit: null }],
    ["of SHA-256", { commit: "a".repeat(64) }],
    ["with the longest reason", { reason: "x".repeat(501) }],
    ["without a reason", { reason: "" }],
    ["to site.notify", { to: "notify", state: "failure" }],
    ["of a build that began", { state: "pending" }],
  ])("reads a report %s", (_, given) => {
    put(given);
    expect(waiting(folder)).toEqual([{ name: Buffer.from("000000001.json"), report: expect.objectContaining(given) }]);
  });

  test("has files in the order of their numbers, and reads none of another name", () => {
    for (let i = 0; i < 12; i++) put({ reason: String(i) });
    expect(waiting(folder).map(({ report }) => report?.reason)).toEqual(
      Array.from({ length: 12 }, (_, i) => String(i)),
    );
    const text = readFileSync(join(folder, "000000001.json"));
    for (const name of ["x000000001.json", "000000001.json5", "00000001.json"]) writeFileSync(join(folder, name), text);
    expect(waiting(folder).filter(({ report }) => report === undefined)).toHaveLength(3);
  });

  test("waits for no pipe, and reads no file of more than 8 KiB", () => {
    execFileSync("mkfifo", [join(folder, "000000001.json")]);
    put();
    const whole = readFileSync(join(folder, "000000002.json"), "utf8");
    writeFileSync(join(folder, "000000003.json"), whole.trim().padEnd(8 << 10));
    writeFileSync(join(folder, "000000004.json"), `${" ".repeat(8 << 10)}${whole}`);
    expect(waiting(folder).map(({ report }) => report !== undefined)).toEqual([false, true, true, false]);
  });

  test("what the builder did not write is removed unread, and stops nothing", async () => {
    const secret = join(folder, "../secret.json");
    writeFileSync(
      secret,
      JSON.stringify({ to: "status", commit: one, state: "success", reason: "leaked", at: new Date().toISOString() }),
    );
    symlinkSync(secret, join(folder, "000000001.json"));
    writeFileSync(join(folder, "000000002.json"), "x".repeat(1 << 20));
    writeFileSync(join(folder, "000000003.json"), JSON.stringify({ to: "status", commit: "../..", state: "success" }));
    writeFileSync(join(folder, "unknown"), "");
    mkdirSync(join(folder, "000000004.json/inside"), { recursive: true });
    put();
    expect(await send()).toBe(false);
    expect(lines.map(({ result }) => result).sort()).toEqual([...Array(5).fill("dropped"), "sent"]);
    expect(running.api.results).toMatchObject([{ description: "Published." }]);
    expect([readdirSync(folder), existsSync(secret)]).toEqual([[], true]);
    rmSync(secret);
  });
});

describe("the program", () => {
  let bundle: string;
  let home: string;
  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), "pushgate-reporter-"));
    bundle = join(home, "reporter.cjs");
    await bundled("reporter", bundle, anywhere);
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  /** Starts the bundle as its unit does. */
  async function run(token: string, program = bundle) {
    const settings = join(home, "reporter.json");
    const repository = `${running.origin}/example/site.git`;
    writeFileSync(
      settings,
      JSON.stringify({
        hook: "site",
        folder,
        site,
        status: { gitHost: "gitea", repository, context: "pushgate/web1/site" },
      }),
    );
    writeFileSync(join(home, "status"), `${token}\n`);
    const env = { PUSHGATE_SETTINGS: settings, CREDENTIALS_DIRECTORY: home, NODE_EXTRA_CA_CERTS: running.caFile };
    const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
    const code = await new Promise((resolve) => child.once("close", resolve));
    return { code, said };
  }

  /** Without a part of the program, the attack gets further. */
  async function without(file: string, words: string, instead: string): Promise<string> {
    const outfile = join(home, `without-${words.replace(/\W/g, "")}.cjs`);
    await bundled("reporter", outfile, (at, text) => {
      if (at !== file) return anywhere(at, text);
      if (!text.includes(words)) throw new Error(`${file} has no longer: ${words}`);
      return text.replace(words, instead);
    });
    return outfile;
  }

  test("sends nothing where no table limits its account, and would, without the look for it", async () => {
    put();
    const whole = join(home, "whole.cjs");
    await bundled("reporter", whole);
    const { code, said } = await run(running.api.token, whole);
    expect([code, running.api.results]).toEqual([1, []]);
    expect(said).toBe(
      "pushgate-reporter: the nft table that limits this account's network is gone. The unit's next start loads it.\n",
    );
    const line = expect.stringMatching(/^\{"hook":"site","to":"status",.*"result":"sent"/);
    expect(await run(running.api.token)).toMatchObject({ code: 0, said: line });
  });

  test("prints no token that an API repeats, and would, without the line that removes it", async () => {
    const { token, faults } = running.api;
    Object.assign(faults, { status: 400, text: `your token is ${token}` });
    put();
    expect(await run(token)).toMatchObject({ code: 3, said: expect.stringContaining("your token is …") });
    put();
    const bare = await without("reporter/send.ts", '.replaceAll(channel.secret, "…")', "");
    expect((await run(token, bare)).said).toContain(`your token is ${token}`);
  });

  test("sends nothing of a file that a link leads to, and would, if it followed links", async () => {
    const closed = join(home, "closed.json");
    const report = {
      to: "status",
      commit: one,
      state: "success",
      reason: "of another site",
      at: new Date().toISOString(),
    };
    writeFileSync(closed, JSON.stringify(report));
    const link = () => symlinkSync(closed, join(folder, "000000001.json"));
    link();
    expect((await run(running.api.token)).code).toBe(3);
    expect(running.api.results).toEqual([]);
    link();
    const following = await without("builder/files.ts", "constants.O_NOFOLLOW | ", "");
    expect((await run(running.api.token, following)).code).toBe(0);
    expect(running.api.results).toMatchObject([{ description: "of another site" }]);
  });

  test("sends what waits and ends with 0, or 3 where a result was rejected", async () => {
    put();
    const line = expect.stringMatching(/^\{"hook":"site","to":"status",.*"result":"sent"/);
    expect(await run(running.api.token)).toMatchObject({ code: 0, said: line });
    expect(running.api.results).toHaveLength(1);
    put();
    const { code, said } = await run("wrong-0123456789abcdefghij");
    expect(code).toBe(3);
    expect(JSON.parse(said)).toMatchObject({ hook: "site", to: "status", result: "dropped", host: "localhost" });
  });

  test("reports all faults of its settings at once", () => {
    const file = join(home, "wrong.json");
    writeFileSync(file, JSON.stringify({ hook: "site", folder: "here", notify: "http://example.org/", status: {} }));
    const read = (env: Record<string, string>) => () => readReporter(env);
    expect(read({ PUSHGATE_SETTINGS: file })).toThrow(SettingsFault);
    expect(read({ PUSHGATE_SETTINGS: file })).toThrow(
      /folder: .*\n.*status.gitHost: .*\n[\s\S]*notify: .*\. Run npx pulumi up, which writes it anew\.$/,
    );
    for (const notify of ["see https://example.org/", "https://example.org/ and more"]) {
      writeFileSync(file, JSON.stringify({ hook: "site", folder, notify }));
      expect(read({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: home })).toThrow(/notify: /);
    }
    writeFileSync(file, JSON.stringify({ hook: "site", folder, notify: "https://example.org/" }));
    expect(read({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: home })).toThrow(/notify is not readable \(ENOENT\)/);
    expect(read({ PUSHGATE_SETTINGS: file })).toThrow(
      /^ +notify is not readable \(ENOENT\): the unit's LoadCredentialEncrypted=notify provides it$/m,
    );
    for (const words of ["two words", "keyé", ""]) {
      writeFileSync(join(home, "notify"), `${words}\n`);
      expect(read({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: home })).toThrow(/notify is not one word of ASCII/);
    }
  });

  test("reads a credential for each of its two posts, without the line's end", () => {
    const file = join(home, "both.json");
    const repository = "https://github.com/example/site.git";
    const status = { gitHost: "github", repository, context: "pushgate" };
    for (const [name, text] of Object.entries({ notify: "the-key", status: "the-token" }))
      writeFileSync(join(home, name), `${text}\n`);
    const secretsOf = (settings: object) => {
      writeFileSync(file, JSON.stringify({ hook: "site", folder, ...settings }));
      return readReporter({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: home }).secrets;
    };
    const notify = "https://example.org/";
    expect(secretsOf({ notify, status })).toEqual({ notify: "the-key", status: "the-token" });
    expect(secretsOf({ notify })).toEqual({ notify: "the-key" });
    expect(secretsOf({ status })).toEqual({ status: "the-token" });
  });
});
