/**
 * `hook --set`, `trace --ping`, `trace --hook` and `trace --since` against the git hosts' fake APIs, with fake hosts whose
 * logs hold what the API delivers. test/service/git-hosts/api has what each API is sent.
 */
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { driftMessage } from "../../../../infra/contract.ts";
import type { Delivery } from "../../../fakes/deliveries.ts";
import { trust } from "../../../fakes/https-server.ts";
import { type Got, type RunningWebhookApi, startWebhookApi } from "../../../fakes/webhook-api.ts";
import { secrets } from "../../../fixtures.ts";
import { ends, Hosts, hookOf, type Ran } from "../hosts.ts";

const hosts = new Hosts();
let running: RunningWebhookApi;
/** What becomes of a delivery, in place of being accepted. */
let fault: ((sent: Delivery) => Got) | undefined;

const byReceiver = (status: number): Got => ({ status, headers: { "x-served-by": "pushgate-receiver" }, body: "" });
const byCloudflare = (status: number): Got => ({ status, headers: { "cf-ray": "8", server: "cloudflare" }, body: "" });

/** A host that verifies nothing: it logs as nginx and the receiver do, and accepts pushes. */
async function deliver(sent: Delivery): Promise<Got> {
  if (fault) return fault(sent);
  const { "x-github-delivery": delivery = sent.headers["x-request-id"], "x-github-event": event } = sent.headers;
  const isUnsigned = !Object.keys(sent.headers).some((name) => /signature/.test(name));
  const status = isUnsigned ? 401 : event === "ping" ? 200 : 202;
  const both = { delivery, hook: "site", status };
  const said = { status: `${status}`, up_status: `${status}`, up_connect: "0.000" };
  const nginx = { ...said, client: "192.0.2.1", in_ranges: "1", limit: "PASSED" };
  const reason = event === "ping" ? "ping" : "accepted";
  const [host = ""] = sent.host.split("-");
  hosts.log(host, { ...both, ...nginx, time: new Date().toISOString() }, { ...both, source: "192.0.2.1", reason });
  return byReceiver(status);
}

const urlOf = (host: string) => `https://${host}-hooks.example.org/webhook/site`;
const url = urlOf("web1");
const variable = "GH_ENTERPRISE_TOKEN";

beforeAll(async () => {
  running = await startWebhookApi(deliver);
  trust(running.ca);
  const sleep = timers.setTimeout;
  // A second of the commands takes 20 ms here.
  vi.spyOn(timers, "setTimeout").mockImplementation((milliseconds = 0) => sleep(milliseconds / 50));
  syncBuiltinESMExports();
});
afterAll(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await running.close();
});
function configure(hook: object = {}, ...names: string[]): void {
  const repository = `${running.origin}/example/site.git`;
  hosts.configure(["web1", ...names], [hookOf({ gitHost: "github-enterprise", repository, ...hook })], secrets);
}
beforeEach(() => {
  hosts.add("web1");
  configure();
});
afterEach(() => {
  fault = undefined;
  const { api } = running;
  api.instead = undefined;
  api.limit = undefined;
  for (const list of [api.webhooks, api.log, api.requests]) list.length = 0;
});

const withToken = (...words: string[]): Promise<Ran> =>
  hosts.runIn(process.cwd(), { [variable]: running.api.token }, ...words);
const set = () => withToken("hook", "site", "--set", "--yes");
const trace = (...words: string[]) => withToken("trace", ...words);
const writes = () => running.api.requests.filter((line) => !line.startsWith("GET"));
const add = (change: object = {}) =>
  running.api.add("github", "example/site", {
    ...{ url, contentType: "json", secret: secrets.site.current, events: ["push"], active: true, verifies: true },
    ...change,
  });

describe("hook --set", () => {
  test("creates the webhook with the stack's secret, pings it, and follows the ping", async () => {
    const pinged =
      /: the webhook is set\.\nsite on web1: ping [\w-]{36}\n.* 8 receiver +passed\ncertain: the receiver ignored the delivery/s;
    const stderr = `site on web1: creates the webhook to ${url}\n`;
    expect(await set()).toEqual({ ...ends(0, pinged), stderr });
    expect(running.api.webhooks).toMatchObject([{ url, secret: secrets.site.current, events: ["push"] }]);
  });

  test("corrects what differs, and sends the secret", async () => {
    add({ contentType: "form", secret: "other", verifies: false, url: `${url}/`, events: ["push", "issues"] });
    expect((await set()).stderr).toContain(
      `URL: ${url}/ -> ${url}; content type: form -> json; events: issues, push -> push; ` +
        "TLS verification: off -> on; the secret is sent anew",
    );
    expect(running.api.webhooks).toMatchObject([{ url, secret: secrets.site.current }]);
    expect(writes()).toEqual([expect.stringMatching(/^PATCH /), expect.stringMatching(/^POST .*\/pings$/)]);
  });

  test("without the token it names variable, permission and page; hook prints them, too", async () => {
    const needs = `a token with "Webhooks: Read and write" in ${variable}`;
    const page = "your account's Settings > Developer settings > Fine-grained tokens, for this repository only";
    const line = `pushgate: site needs ${needs}, made at ${page}. Run: export ${variable}=<token>\n`;
    expect(await hosts.run("hook", "site", "--set")).toMatchObject({ code: 1, stderr: line });
    expect(await hosts.run("hook")).toMatchObject(ends(0, `npx pushgate hook site --set enters it, given ${needs}`));
  });

  test("neither token nor secret is printed after an answer that repeats both, and a redirect is not followed", async () => {
    const { api } = running;
    const said = `${api.token} ${secrets.site.current}`;
    const instead = vi.spyOn(api, "instead", "get");
    instead.mockImplementation(() => (writes().length > 0 ? { status: 500, body: { said } } : undefined));
    expect(await set()).toMatchObject(ends(1, "", /answered 500 \{"said":"… …"\}\.\n$/));
    instead.mockReturnValue({ status: 301, headers: { location: "https://elsewhere.example.net/" }, body: {} });
    expect(await set()).toMatchObject(ends(1, "", /a redirect, which is not followed/));
    instead.mockRestore();
  });

  test("it waits for the rate limit where that ends soon, and else says when", async () => {
    running.api.limit = { left: 0, for: 1_000 };
    expect(await set()).toMatchObject(ends(0, "", /has pushgate wait [1-9] s\./));
    running.api.limit = { left: 0, for: 600_000 };
    const later = /accepts no more requests with GH_ENTERPRISE_TOKEN for 1[01] min\. Run the command/;
    expect(await set()).toMatchObject(ends(1, "", later));
  });
});

describe("trace of the git host's delivery history", () => {
  beforeEach(() => void add());
  /** Sends pushes that end so; without `got`, the host accepts them. */
  async function pushed(got?: Got, count = 1) {
    fault = got && (() => got);
    for (let i = 1; i < count; i++) await running.api.push();
    const [last] = await running.api.push();
    fault = undefined;
    return last!.delivery;
  }

  test("a history without a failed delivery, and one without any push", async () => {
    const never = "has sent no push to this webhook.\n  fix, if you pushed: npx pushgate hook --set";
    expect(await trace("--hook", "site")).toMatchObject(ends(0, never));
    await pushed();
    const none = "No delivery has failed in the 3 days that the git host keeps.\n";
    expect(await trace("--hook", "site")).toMatchObject({ code: 0, stdout: none });
  });

  test("the last failed delivery, and where <commit> has the same of a commit that did not arrive", async () => {
    configure({ site: { webRoot: "/var/www/site" } });
    await pushed();
    const delivery = await pushed(byReceiver(401));
    await pushed();
    const failed = await trace("--hook", "site");
    // The log of this host has no line of it, which no answer of the receiver leaves.
    const none = "\nno outcome that pushgate knows fits what was seen\n";
    expect(failed).toMatchObject(
      ends(3, new RegExp(`^\\S+ {2}site on web1 {2}push {2}${delivery} {2}401\n.*${none}`, "s")),
    );
    const where = (...words: string[]) => withToken("where", "f".repeat(40), ...words);
    const { found, trace: traced } = JSON.parse((await where("--json")).stdout);
    expect(found).toMatchObject([{ host: "web1", state: "not delivered" }]);
    expect(traced).toMatchObject([{ delivery, outcomes: [] }]);
    expect(traced).toEqual(JSON.parse((await trace("--hook", "site", "--json")).stdout));
    const { code, stdout } = await where();
    expect([code, stdout.replace(/^site on web1: not delivered: .*\n/, "")]).toEqual([1, failed.stdout]);
  });

  test("a delivery by its id has the history's answer, too", async () => {
    const sent = await pushed();
    const served = /the git host's page +202 \{"x-served-by":"pushgate-receiver"/;
    expect(await trace("--delivery", sent)).toMatchObject(ends(0, served));
    expect(await hosts.run("trace", "--delivery", sent)).toMatchObject(ends(0, /the git host's page +not looked at/));
  });

  test("the last ones are traced by one connection to the host", async () => {
    await pushed(undefined, 5);
    const { code, stdout } = await trace("--hook", "site", "--last", "4", "--json");
    const found = JSON.parse(stdout) as { outcomes: { name: string }[]; delivery: string }[];
    const wanted = running.api.log.slice(-4).reverse();
    expect(found.map(({ delivery }) => delivery)).toEqual(wanted.map(({ delivery }) => delivery));
    expect([code, new Set(found.map(({ outcomes }) => outcomes[0]?.name))]).toEqual([0, new Set(["accepted"])]);
    expect(hosts.connections("web1")).toBe(1);
  });

  test("the failed ones are grouped by their layer, and what is older than the history is named", async () => {
    await pushed();
    await pushed(byCloudflare(522), 2);
    await pushed(byCloudflare(526));
    const { code, stdout, stderr } = await trace("--since", "9d");
    expect(stderr).toBe("The git host keeps 3 days: what failed before is not in its delivery history.\n");
    const why = "\\n {2}certain: .+\\.\\n {4}fix: .+";
    const line = "\\n {2}\\S+ {2}site on web1 {2}push {2}[\\w-]{36} {2}";
    const groups = `rejected by 4 Cloudflare to origin: one delivery${why}${line}526\n\nrejected by 5 firewall: 2 deliveries${why}`;
    expect(stdout).toMatch(new RegExp(`^3 deliveries failed of 4 in 9 days:\n\n${groups}(${line}522){2}\n$`));
    expect(code).toBe(1);
  });

  test("--redeliver sends nothing while the ping fails, then each once", async () => {
    await pushed(byCloudflare(522), 2);
    fault = () => byCloudflare(522);
    const again = () => running.api.log.filter(({ redelivery }) => redelivery);
    const redeliver = (...words: string[]) => trace("--since", "3d", "--redeliver", ...words);
    const lost = /5 firewall +rejected it[\s\S]*certain: Cloudflare could not connect/;
    expect(await redeliver("--yes")).toMatchObject(
      ends(1, lost, "nothing was delivered again: the ping did not arrive."),
    );
    expect(again()).toEqual([]);
    fault = undefined;
    const question = "This has the git host send 2 deliveries of site on web1 again. Nothing was changed";
    expect(await redeliver()).toMatchObject(ends(1, "certain: the receiver ignored the delivery", question));
    const done =
      /2 deliveries sent again:\n\ndelivered: 2 deliveries\n {2}certain: the receiver accepted the delivery\./;
    expect(await redeliver("--yes")).toMatchObject(ends(0, done));
    expect(again().map(({ got }) => got.status)).toEqual([202, 202]);
    expect(new Set(again().map(({ delivery }) => delivery)).size).toBe(2);
    expect((await redeliver("--yes")).stdout).toContain("There is nothing to deliver again.");
  });

  test("without the token it says what it needs, and a webhook that is missing how to make it", async () => {
    const line = "there is no git host's delivery history to read. site needs a token with";
    expect(await hosts.run("trace", "--hook", "site")).toMatchObject(ends(1, "", line));
    running.api.webhooks.length = 0;
    expect((await trace("--hook", "site")).stderr).toContain(`has no webhook to ${url}. Run npx pushgate hook`);
  });
});

describe("audit", () => {
  test("a webhook as declared, one that differs, and a missing one", async () => {
    configure({}, "web2", "web3");
    add();
    add({ url: urlOf("web2"), active: false });
    const { code, stdout } = await withToken("audit");
    expect(code).toBe(7);
    expect(stdout.split("\n").sort()).toEqual([
      ...["", "  site on web1: as declared"],
      "  site on web2: active: off -> on. Run npx pushgate hook site --set.",
      ...["  site on web3: missing. Run npx pushgate hook site --set.", "Webhooks:"],
    ]);
    expect(writes()).toEqual([]);
  });

  test("without the token it looks at no webhook, and with a wrong one it could not look", async () => {
    expect(await hosts.run("audit")).toMatchObject({ code: 0, stdout: "" });
    const wrong = await hosts.runIn(process.cwd(), { [variable]: "wrong-token-0123456789" }, "audit");
    expect(wrong).toMatchObject(ends(1, "site on web1: https://localhost"));
  });

  test("--json prints a line for each item, of the preview and of a webhook, and nothing else", async () => {
    const range = { host: null, layer: "published ranges", item: "192.0.2.0/24" };
    const items = [
      { ...range, kind: "undeclared", before: "GitHub", after: null },
      { host: "web1", layer: "webhook", item: "site: active", kind: "property", before: "off", after: "on" },
    ];
    add({ active: false });
    hosts.write("events", `${JSON.stringify({ diagnosticEvent: { message: `${driftMessage(items[0]!)}\n` } })}\n`);
    const lines = items.map((item) => `${JSON.stringify(item)}\n`).join("");
    expect(await withToken("audit", "--json")).toMatchObject({ code: 7, stdout: lines });
    expect(await hosts.run("audit")).toMatchObject({ code: 7, stdout: "" });
  });
});

describe("a git host without a record", () => {
  const run = (gitHost: string, path: string, token: string, ...words: string[]) => {
    configure({ gitHost, repository: `${running.origin}${path}/example/site.git`, sources: ["198.51.100.7"] });
    return hosts.runIn(process.cwd(), { [token]: running.api.token }, ...words);
  };

  test("gitea: --set sends its test, which is followed in the hosts' logs", async () => {
    const gitea = (...words: string[]) => run("gitea", "/gitea", "GITEA_TOKEN", ...words);
    const old = { url, contentType: "json", secret: "other", active: true, verifies: true };
    for (const events of [["issues"], ["release"]]) running.api.add("gitea", "example/site", { ...old, events });
    const accepted =
      /certain: the receiver accepted the delivery\..*the git host's page +not looked at.*The git host has no ping: it sent its last commit as a push\./s;
    expect(await gitea("hook", "site", "--set", "--yes")).toMatchObject(ends(0, accepted));
    // A host whose logs have no line: each look at them costs little.
    hosts.program("web1/bin/timeout", "echo pushgate: begin");
    expect(await gitea("trace", "--ping")).toMatchObject(ends(3, /unknown[\s\S]*nginx +no line/));
    expect(hosts.connections("web1")).toBeGreaterThan(20);
    const page = "Gitea has no API for its delivery history: its page has it.";
    expect(await gitea("trace", "--hook", "site")).toMatchObject(ends(1, "", page));
  });

  test("bitbucket-data-center: --set creates the webhook, and the host sends the ping to its receiver itself", async () => {
    // Its connection gets no answer, and waits for none here.
    hosts.program("web1/bin/perl", "");
    const { stdout } = await run("bitbucket-data-center", "/scm", "BITBUCKET_TOKEN", "hook", "site", "--set", "--yes");
    expect(stdout).toMatch(/^site on web1: the webhook is set\.\n/);
    expect(stdout).toMatch(/has no API for tests with a signature.*\nThe host sent this ping to its receiver itself\./);
  });
});

test("one token is not sent to two servers", async () => {
  const hook = (name: string, at: string) =>
    hookOf({ name, gitHost: "github-enterprise", repository: `${at}/example/site.git` });
  hosts.configure(["web1"], [hook("site", running.origin), hook("docs", "https://git.example.net")], secrets);
  const line = `${variable} would be sent to ${running.origin} and to https://git.example.net. Name one hook`;
  expect(await withToken("hook", "--set", "--yes")).toMatchObject(ends(1, "", line));
  expect(running.api.requests).toEqual([]);
});
