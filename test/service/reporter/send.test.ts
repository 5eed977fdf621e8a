/** The reporter against the git hosts' APIs: what it sends, tries again and drops, and that a build never waits for it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { add, type Report, waiting } from "../../../service/builder/outbox.ts";
import { channelsOf } from "../../../service/reporter/channels.ts";
import { handOver } from "../../../service/reporter/mail.ts";
import {
  type Channel,
  type Channels,
  type Line,
  sendAll,
  type Terms,
  terms,
  testAll,
} from "../../../service/reporter/send.ts";
import type { Reporter } from "../../../service/reporter/settings.ts";
import { trust } from "../../fakes/https-server.ts";
import { startStatusApi } from "../../fakes/status-api.ts";
import { anywhere, both, bundled, type Rewrite, replaced } from "../bundles.ts";
import { folder, onFolder } from "../own-folder.ts";

const [one, two] = ["1".repeat(40), "2".repeat(40)] as const;
const site = "https://www.example.org/";
const [team, ops] = ["team", "ops"];
const quick: Terms = { first: 20, longest: 80, age: 60_000, look: 10, answer: 5 };

const running = await startStatusApi();
trust(running.ca);
let lines: Line[];
afterAll(() => running.close());
onFolder();
beforeEach(() => {
  lines = [];
  const { api } = running;
  for (const key of Object.keys(api.faults)) delete api.faults[key as keyof typeof api.faults];
  for (const list of [api.results, api.notifications]) list.length = 0;
  api.commits.clear();
  api.requests = 0;
});

/** Polls for as long as a busy computer needs. */
const soon = (look: () => unknown) => expect.poll(look, { timeout: 30_000 });

const put = (report: Partial<Report> = {}) => {
  const at = new Date().toISOString();
  add(folder, { to: "status", commit: one, state: "success", reason: "Published.", at, ...report });
};

/** Ends a reporter that waits. */
const emptied = () => {
  for (const { name } of waiting(folder)) rmSync(join(folder, `${name}`));
};

const channelsWith = (settings: Partial<Reporter["settings"]>, secrets: Partial<Reporter["secrets"]>) =>
  channelsOf({
    settings: { hook: "site", folder, notify: [], ...settings },
    secrets: { notify: {}, ...secrets },
  });

/** Of a repository at the fake. */
function channels(gitHost: "gitea" | "github-enterprise" = "gitea"): Channels & { readonly status: Channel } {
  const { origin, api } = running;
  const status = { gitHost, repository: `${origin}/example/site.git`, context: "pushgate/web1/site" };
  const notify = [team, ops].map((name) => ({ name, url: `${origin}/hooks/${name}`, format: "standard" as const }));
  const secrets = { status: api.token, notify: { team: api.key, ops: api.key } };
  const { status: set, ...others } = channelsWith({ site, notify, status }, secrets);
  return { status: set!, ...others };
}

/** A channel to a server that never answers. */
const dead = (channel: Channel): Channel => ({
  ...channel,
  postOf: (report) => ({ ...channel.postOf(report)!, url: "https://localhost:1/" }),
});

const always = async () => true;
const send = (to: Channels = channels(), terms: Terms = quick) =>
  sendAll(folder, to, (line) => void lines.push(line), always, terms);

test("a result waits where nothing limits the account's network", async () => {
  put();
  const sent = sendAll(
    folder,
    channels(),
    () => {},
    async () => false,
    quick,
  );
  await expect(sent).rejects.toThrow("the nft table that limits this account's network is gone.");
  expect([running.api.results, waiting(folder).length]).toEqual([[], 1]);
});

// api.test.ts of the git hosts has what each API is sent.
describe("a result", () => {
  test("is sent in the order of its report, without those of its commit that are older, or without a commit", async () => {
    put({ state: "pending", reason: "The build runs." });
    put({ commit: two, state: "pending" });
    put({ commit: null });
    put();
    expect(await send()).toBe(true);
    const about = { context: "pushgate/web1/site", url: site };
    expect(running.api.results).toMatchObject([
      { commit: two, state: "pending", ...about },
      { commit: one, state: "success", ...about },
    ]);
    expect([running.api.requests, waiting(folder)]).toEqual([2, []]);
  });

  test("that the git host rejects is dropped after one try, and the next one is sent", async () => {
    running.api.commits.add(two);
    put();
    put({ commit: two, reason: "Hugo: no such page \u{1f41f}" });
    expect(await send(channels("github-enterprise"))).toBe(false);
    expect(lines).toMatchObject([
      { result: "dropped", reason: `422 {"message":"No commit found for SHA: ${one}"}` },
      { result: "sent", commit: two },
    ]);
  });

  // pause.test.ts has what names a pause.
  test.each([
    ["429", "77", 77],
    ["403", "60", 60],
    ["429, of which an hour counts", "31536000", 3600],
  ])("waits as long as the API says: %s", async (status, seconds, pause) => {
    Object.assign(running.api.faults, { status: Number.parseInt(status, 10), headers: { "retry-after": seconds } });
    put();
    const tried = send();
    await soon(() => lines.map(({ reason }) => reason)).toEqual([
      expect.stringMatching(`the next try is in ${pause} s$`),
    ]);
    expect(running.api.requests).toBe(1);
    emptied();
    expect(await tried).toBe(true);
  });
});

const long = "x".repeat(1 << 20);
const oneLine = `no such? thing ${long.slice(0, 281)}…`;
test.each([
  [299, "sent", "299"],
  [300, "dropped", "300, a redirect, which is not followed"],
  [399, "dropped", "399, a redirect, which is not followed"],
  [400, "dropped", `400 ${oneLine}`],
  [499, "dropped", `499 ${oneLine}`],
])("a result that is answered with %i is %s, and the journal has one line of it", async (status, result, reason) => {
  const { api, origin } = running;
  Object.assign(api.faults, { status, headers: { location: origin }, text: `  no \n\t such\u001b thing\n${long}` });
  put();
  expect(await send()).toBe(result === "sent");
  expect(lines).toEqual([
    { to: "status", host: new URL(origin).host.split(":")[0], state: "success", commit: one, result, reason },
  ]);
  expect(api.requests).toBe(1);
});

function stopClock() {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
}
/** Sends with a stopped clock that each pause advances, and returns the pauses in seconds and "sent". */
async function paused(status: Channel, terms: Terms, each = () => {}) {
  const found: (number | string)[] = [];
  const journal = (line: Line) => {
    lines.push(line);
    const [, seconds] = /; the next try is in (\d+) s$/.exec(line.reason) ?? [];
    if (line.result !== "dropped") found.push(seconds === undefined ? line.result : Number(seconds));
    vi.advanceTimersByTime(Number(seconds ?? 0) * 1000);
    each();
  };
  await sendAll(folder, { status }, journal, always, terms);
  return found;
}

test("the pause doubles up to the longest, and begins anew after a report that was sent", async () => {
  stopClock();
  Object.assign(running.api.faults, { status: 500 });
  put();
  put({ commit: two });
  const { status } = channels();
  const postOf = (report: Report) => (report.commit === two ? dead(status) : status).postOf(report);
  const each = () => {
    if (lines.length === 4) delete running.api.faults.status;
    if (lines.length === 6) emptied();
  };
  const pauses = await paused({ ...status, postOf }, { ...terms, longest: 30_000, look: 1 }, each);
  expect(pauses).toEqual([5, 10, 20, 30, "sent", 5]);
});

test("the pauses are 5 s to 15 min, and a result is dropped after more than 24 h without an answer", async () => {
  stopClock();
  // At the last but one try, exactly 24 h old.
  put({ at: new Date(Date.now() - 525_000).toISOString() });
  const pauses = await paused(dead(channels().status), { ...terms, look: 1 });
  expect(pauses).toEqual([5, 10, 20, 40, 80, 160, 320, 640, ...Array(95).fill(900)]);
  expect(lines.at(-1)).toMatchObject({ result: "dropped", reason: expect.stringMatching(/ECONNREFUSED.*, for 24 h$/) });
});

describe("between two looks into the outbox", () => {
  const rare = { ...quick, look: 60_000 };

  test("neither the end, nor a result that arrives while another one is sent, waits", { timeout: 10_000 }, async () => {
    put();
    const journal = (line: Line) => {
      lines.push(line);
      if (lines.length === 1) put({ commit: two });
      if (lines.length === 2) writeFileSync(join(folder, "unknown"), "");
    };
    expect(await sendAll(folder, channels(), journal, always, rare)).toBe(false);
    expect(lines).toMatchObject([
      { commit: one },
      { commit: two },
      { to: null, result: "dropped", reason: "unknown is no report of the builder" },
    ]);
  });
});

describe("a recipient", () => {
  const status = { gitHost: "gitea", repository: "https://git.example.net/a/b.git", context: "x" } as const;
  const notify = [{ name: "team", url: "https://example.net:8443/hook", format: "standard" as const }];
  const [token, key] = ["0123456789abcdefghij", `whsec_${Buffer.alloc(32, 7).toString("base64")}`];

  test("exists where it is configured and has its secret", () => {
    const of = (settings: object, secrets: object) =>
      Object.keys(channelsWith(settings, { notify: { team: key }, ...secrets }));
    expect(of({ status, notify }, { status: token })).toEqual(["status", "notify.team"]);
    expect(of({ status }, { status: token })).toEqual(["status"]);
    expect(of({ status, notify }, {})).toEqual(["notify.team"]);
    expect(of({}, { status: token })).toEqual([]);
  });

  test("of a site that another web server serves gets no address of it", () => {
    const secrets = { status: token, notify: { team: key } };
    const { status: set, "notify.team": told } = channelsWith({ status, notify }, secrets);
    const [reason, at] = ["Published.", "2026-11-23T12:00:00.000Z"];
    const report = { to: "status", commit: one, state: "success", reason, at } as const;
    const bodyOf = (channel?: Channel) => JSON.parse(channel!.postOf(report)!.body!);
    expect(bodyOf(set)).toEqual({ state: "success", context: "x", description: reason });
    const turn = { hook: "site", site: null, state: "succeeding" };
    expect(bodyOf(told)).toEqual({ ...turn, commit: one, reason, time: at });
    expect([set!.host, told!.host]).toEqual(["git.example.net", "example.net:8443"]);
    expect([set!.secret, told!.secret]).toEqual([token, key]);
    expect(told!.postOf({ ...report, state: "failure" })!.body).toContain('"state":"failing"');
  });
});

describe("site.notify", () => {
  test.each([408, 429])("gets the newest turn, signed, also after a %i, and with the same id", async (status) => {
    const notify = { to: "notify.team", commit: one } as const;
    put({ ...notify, commit: two, state: "failure", reason: "an older one" });
    put({ ...notify, state: "failure", reason: "Hugo failed." });
    Object.assign(running.api.faults, { status });
    const tried = send();
    await soon(() => lines.length).toBeGreaterThan(0);
    delete running.api.faults.status;
    expect(await tried).toBe(true);
    expect(lines[0]!.reason).toMatch(`${status}; the next try is in`);
    put({ ...notify, state: "success", reason: "changed: layouts/index.html" });
    await send();
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

  test("is sent while the git host is dead, and another recipient hangs", async () => {
    put();
    put({ to: "notify.ops" });
    put({ to: "notify.team" });
    const to = channels();
    const hangs = createServer(() => {}).listen(0, "127.0.0.1");
    onTestFinished(() => void hangs.close());
    await once(hangs, "listening");
    const url = `https://127.0.0.1:${(hangs.address() as AddressInfo).port}/`;
    const never = { ...to["notify.ops"]!, postOf: () => ({ url, headers: {} }) };
    const tried = send({ ...to, status: dead(to.status), "notify.ops": never }, { ...quick, answer: 3 });
    await soon(() => running.api.notifications.length).toBe(1);
    expect(lines.filter(({ to }) => to === "notify.ops")).toEqual([]);
    put({ to: "notify.team" });
    await soon(() => running.api.notifications.length).toBe(2);
    expect(lines).toContainEqual(expect.objectContaining({ to: "notify.ops", result: "delayed" }));
    emptied();
    await tried;
  });

  test("gets each publish, which takes the place of no turn", async () => {
    const states = ["published", "failure", "success", "published", "published"] as const;
    for (const state of states) put({ to: "notify.team", state });
    expect(await send()).toBe(true);
    const found = running.api.notifications.map(({ state }) => state);
    expect(found).toEqual(["published", "succeeding", "published", "published"]);
  });

  test("gets a test once, and the answer of each recipient is its status and first line, without its secret", async () => {
    const { api } = running;
    const to = channels();
    const tested = (given: Channels) => testAll(given, always, quick);
    const host = new URL(running.origin).host;
    expect(await tested({ ...to, "notify.ops": dead(to["notify.ops"]!) })).toEqual([
      { to: "notify.team", host, result: "sent", reason: "204" },
      { to: "notify.ops", host, result: "delayed", reason: expect.stringContaining("ECONNREFUSED") },
    ]);
    expect(api.notifications).toMatchObject([{ hook: "site", site, state: "test", commit: null }]);
    Object.assign(api.faults, { status: 404, text: `no channel\n${api.key}` });
    expect(await tested(to)).toMatchObject([team, ops].map(() => ({ result: "rejected", reason: "404 no channel …" })));
    expect([api.requests, api.results]).toEqual([3, []]);
    await expect(testAll(to, async () => false, quick)).rejects.toThrow("is gone");
  });
});

describe("mail", () => {
  const path = () => join(folder, "../sendmail");
  /** As the unit behind the socket: reads all, then answers. */
  const listening = async (answer: string) => {
    const taken: string[] = [];
    const server = createServer({ allowHalfOpen: true }, async (connection) => {
      taken.push(await text(connection));
      connection.end(answer);
    }).listen(path());
    onTestFinished(() => void server.close());
    await once(server, "listening");
    return taken;
  };
  const mail = () =>
    channelsWith({ notify: [{ name: "mail", url: "mailto:a@example.org", format: "email", socket: path() }] }, {});

  test("goes to the socket of sendmail, and is sent once sendmail took it", async () => {
    const taken = await listening("sent\n");
    put({ to: "notify.mail", state: "failure", reason: "Hugo failed." });
    expect(await send(mail())).toBe(true);
    expect(lines).toMatchObject([{ to: "notify.mail", host: "sendmail", result: "sent", reason: "sent" }]);
    expect(taken).toEqual([expect.stringMatching(/^To: a@example\.org\nSubject: [\s\S]*\n\n[\w+/=\n]+$/)]);
  });

  test.each([
    ["", /^sendmail did not take it: no answer\. Read: journalctl -u 'pushgate-mail-\*'$/],
    ["postdrop: warning", /^sendmail did not take it: postdrop: warning\. Read/],
    [undefined, /^sendmail did not take it: connect ENOENT .*sendmail\. Read/],
  ])("is delayed where the answer is %j", async (answer, reason) => {
    if (answer !== undefined) await listening(answer);
    expect(await handOver(path(), "", 15)).toEqual({ kind: "delayed", reason: expect.stringMatching(reason) });
  });
});

describe("the program", () => {
  const at = new Date().toISOString();
  /** Starts the bundle as its unit does, without the network's table. */
  async function run(token: string, rewrite?: Rewrite, more: NodeJS.ProcessEnv = {}) {
    const home = mkdtempSync(join(tmpdir(), "pushgate-reporter-"));
    const [settings, program] = [join(home, "reporter.json"), join(home, "reporter.cjs")];
    await bundled("reporter", program, rewrite);
    const repository = `${running.origin}/example/site.git`;
    const status = { gitHost: "gitea", repository, context: "pushgate/web1/site" };
    const notify = [{ name: "team", url: `${running.origin}/hooks/team`, format: "standard" }];
    writeFileSync(settings, JSON.stringify({ hook: "site", folder, site, status, notify }));
    writeFileSync(join(home, "status"), `${token}\n`);
    writeFileSync(join(home, "notify"), `team:${running.api.key}\n`);
    const env = {
      ...more,
      PUSHGATE_SETTINGS: settings,
      CREDENTIALS_DIRECTORY: home,
      NODE_EXTRA_CA_CERTS: running.caFile,
    };
    const child = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
    const [code] = await once(child, "close");
    rmSync(home, { recursive: true });
    return { code, said };
  }

  test("sends nothing where no table limits its account, and would, without the look for it", async () => {
    put();
    const said =
      "pushgate-reporter: the nft table that limits this account's network is gone. The unit's next start loads it.\n";
    expect(await run(running.api.token)).toEqual({ code: 1, said });
    expect(running.api.results).toEqual([]);
    const line = expect.stringMatching(/^\{"hook":"site","to":"status",.*"result":"sent"/);
    expect(await run(running.api.token, anywhere)).toMatchObject({ code: 0, said: line });
    expect(running.api.results).toHaveLength(1);
  });

  test("tests the recipients where its environment names a test, then sends what waits", async () => {
    put();
    const { code, said } = await run(running.api.token, anywhere, { PUSHGATE_TEST: "a test" });
    const [tested, sent] = said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const host = new URL(running.origin).host;
    const answers = [{ to: "notify.team", host, result: "sent", reason: "204" }];
    expect([code, tested]).toEqual([0, { hook: "site", test: "a test", answers }]);
    expect(sent).toMatchObject({ to: "status", result: "sent" });
    expect(await run(running.api.token, undefined, { PUSHGATE_TEST: "a test" })).toMatchObject({ code: 1 });
  });

  test("fails where it waits for what can no longer come", async () => {
    put();
    const stuck = replaced("reporter/send.ts", "await send(channel, post, answer)", "await new Promise(() => {})");
    const said = "pushgate-reporter: unexpected: it ended before its work did\n";
    expect(await run(running.api.token, both(anywhere, stuck))).toEqual({ code: 1, said });
    expect(waiting(folder)).toHaveLength(1);
    const silent = replaced("settings.ts", 'process.once("beforeExit", unfinished);', "");
    expect(await run(running.api.token, both(anywhere, both(stuck, silent)))).toEqual({ code: 0, said: "" });
  });

  test("prints no token that an API repeats and sends nothing of a link, and would, without these protections", async () => {
    const closed = join(folder, "../closed.json");
    onTestFinished(() => rmSync(closed));
    const report = { to: "status", commit: one, state: "success", reason: "of another site", at };
    writeFileSync(closed, JSON.stringify(report));
    const { api } = running;
    const { token } = api;
    const prepare = () => {
      symlinkSync(closed, join(folder, "000000001.json"));
      put({ commit: two });
    };
    Object.assign(api.faults, { status: 400, text: `your token is ${token}` });
    prepare();
    const whole = await run(token, anywhere);
    expect([whole.code, api.requests]).toEqual([3, 1]);
    expect(whole.said).toContain("your token is …");
    expect(whole.said).not.toContain(token);
    prepare();
    const repeating = replaced("reporter/send.ts", '.replaceAll(secret, "…")', "");
    const following = replaced("builder/files.ts", "fs.constants.O_NOFOLLOW | ", "");
    const { said } = await run(token, both(anywhere, both(repeating, following)));
    expect(api.requests).toBe(3);
    expect(said).toContain(`your token is ${token}`);
  });
});
