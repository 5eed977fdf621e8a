/**
 * `hook --set`, `trace --ping`, `trace --hook` and `trace --since` against the git hosts' fake APIs, with fake hosts whose
 * logs hold what the API delivers.
 */
import type { setTimeout as wait } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Delivery } from "../../../fakes/deliveries.ts";
import { type Got, type RunningWebhookApi, startWebhookApi } from "../../../fakes/webhook-api.ts";
import { secrets } from "../../../fixtures.ts";
import { ends, Hosts, hookOf, hostOf, type Ran } from "../hosts.ts";

/** A second of the commands takes 20 ms here. */
vi.mock("node:timers/promises", async (original) => {
  const { setTimeout: sleep } = await original<{ setTimeout: typeof wait }>();
  return { setTimeout: (milliseconds: number) => sleep(milliseconds / 50) };
});

const hosts = new Hosts();
let running: RunningWebhookApi;
/** What becomes of a delivery, in place of being accepted. */
let fault: ((sent: Delivery) => Got) | undefined;

const byReceiver = (status: number): Got => ({
  ...{ status, headers: { "x-served-by": "pushgate-receiver", "content-type": "text/plain" }, body: "" },
});
const byCloudflare = (status: number): Got => ({ status, headers: { "cf-ray": "8", server: "cloudflare" }, body: "" });

/** A host that verifies nothing: it logs as nginx and the receiver do, and accepts pushes. */
async function deliver(sent: Delivery): Promise<Got> {
  if (fault) return fault(sent);
  const { "x-github-delivery": delivery = sent.headers["x-request-id"], "x-github-event": event } = sent.headers;
  const isUnsigned = !Object.keys(sent.headers).some((name) => /signature/.test(name));
  const status = isUnsigned ? 401 : event === "ping" ? 200 : 202;
  const both = { delivery, hook: "site", status };
  const nginx = { up_status: `${status}`, up_connect: "0.000", client: "192.0.2.1", in_ranges: "1", limit: "PASSED" };
  const reason = event === "ping" ? "ping" : "accepted";
  hosts.log(
    sent.host.replace("-hooks.example.org", ""),
    { ...both, ...nginx, time: new Date().toISOString() },
    { ...both, source: "192.0.2.1", reason },
  );
  return byReceiver(status);
}

const url = "https://web1-hooks.example.org/webhook/site";
const variable = "GH_ENTERPRISE_TOKEN";

beforeAll(async () => {
  running = await startWebhookApi(deliver);
  setDefaultCACertificates([...getCACertificates(), running.ca]);
});
afterAll(async () => {
  await running.close();
  hosts.remove();
});
beforeEach(() => {
  hosts.add("web1");
  hosts.log("web1", {});
  hosts.configure([hostOf("web1")], [hookOf({ repository: `${running.origin}/example/site.git` })], secrets);
});
afterEach(() => {
  fault = undefined;
  const { api } = running;
  api.instead = undefined;
  api.limit = undefined;
  api.webhooks.length = 0;
  api.log.length = 0;
  api.requests.length = 0;
});

const withToken = (...words: string[]): Promise<Ran> => with_(running.api.token, ...words);
const with_ = (token: string, ...words: string[]): Promise<Ran> =>
  hosts.runIn(process.cwd(), { [variable]: token }, ...words);
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
    const { code, stdout, stderr } = await set();
    expect(stderr).toBe(`site on web1: creates the webhook to ${url}\n`);
    expect(stdout).toMatch(/site on web1: the webhook is set\.\nsite on web1: ping [\w-]{36}\n/);
    expect(stdout).toMatch(/8 receiver +passed\ncertain: the receiver ignored the delivery/);
    expect(code).toBe(0);
    expect(running.api.webhooks).toEqual([
      {
        ...{ id: expect.any(Number), family: "github", repository: "example/site", url, contentType: "json" },
        ...{ secret: secrets.site.current, events: ["push"], active: true, verifies: true },
      },
    ]);
  });

  test("corrects what differs, sends the secret and not its mask, and leaves other webhooks alone", async () => {
    const other = { contentType: "form", secret: "other", verifies: false };
    const kept = structuredClone(add({ ...other, url: "https://ci.example.org/webhook/site" }));
    add({ ...other, url: `${url}/`, events: ["push", "issues"], active: false });
    const { code, stderr } = await set();
    expect(stderr).toContain(
      `URL: ${url}/ -> ${url}; content type: form -> json; events: issues, push -> push; active: off -> on; ` +
        "TLS verification: off -> on; the secret is sent anew",
    );
    expect(code).toBe(0);
    const own = { url, secret: secrets.site.current, events: ["push"], active: true };
    expect(running.api.webhooks).toMatchObject([kept, own]);
    expect(writes()).toEqual([expect.stringMatching(/^PATCH /), expect.stringMatching(/^POST .*\/pings$/)]);
  });

  test("without the token it names variable, permission and page; hook prints them, too", async () => {
    const needs = `a token with "Webhooks: Read and write" in ${variable}`;
    const page = "your account's Settings > Developer settings > Fine-grained tokens, for this repository only";
    const line = `pushgate: site needs ${needs}, made at ${page}. Run: export ${variable}=<token>\n`;
    expect(await hosts.run("hook", "site", "--set")).toMatchObject({ code: 1, stderr: line });
    expect(await hosts.run("hook")).toMatchObject(ends(0, `npx pushgate hook site --set enters it, given ${needs}`));
  });

  const elsewhere = { status: 301, headers: { location: "https://elsewhere.example.net/" }, body: {} };
  const repeats = { status: 500, body: { said: `token-0123456789abcdefghij ${secrets.site.current}` } };
  test.each([
    ["a wrong token", "wrong-token-0123456789", undefined, /answered 401 .*GH_ENTERPRISE_TOKEN is no valid token/],
    ["no permission", "reader-0123456789abcdefghij", undefined, /answered 403 .*needs "Webhooks: Read and write" for/],
    ["an API that repeats both", "token-0123456789abcdefghij", repeats, /answered 500 \{"said":"… /],
    ["a redirect", "token-0123456789abcdefghij", elsewhere, /a redirect, which is not followed/],
  ])("neither token nor secret is printed after %s", async (_, token, instead, line) => {
    running.api.instead = instead;
    const ran = await with_(token, "hook", "site", "--set", "--yes");
    expect(ran).toMatchObject(ends(1, "", line));
    expect(JSON.stringify(ran)).not.toContain(token);
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

  test("a ping is traced, and one that is rejected is named", async () => {
    expect(await trace("--ping", "--hook", "site")).toMatchObject(
      ends(0, "certain: the receiver ignored the delivery"),
    );
    fault = () => byCloudflare(522);
    const lost = /5 firewall +rejected it[\s\S]*certain: Cloudflare could not connect/;
    expect(await trace("--ping", "--hook", "site")).toMatchObject(ends(1, lost));
  });

  test("the last failed delivery, with the answer of the history", async () => {
    await running.api.push();
    fault = () => byReceiver(401);
    const [failed] = await running.api.push();
    fault = undefined;
    await running.api.push();
    const { code, stdout } = await trace("--hook", "site");
    expect(stdout).toContain(`site on web1  push  ${failed!.delivery}  401`);
    expect(code).toBe(3);
    // The log of this host has no line of it, which no answer of the receiver leaves.
    expect(stdout).toContain("no outcome that pushgate knows fits what was seen");
  });

  test("a history without a failed delivery, and one without any push", async () => {
    const never = "has sent no push to this webhook.\n  fix, if you pushed: npx pushgate hook --set";
    expect(await trace("--hook", "site")).toMatchObject(ends(0, never));
    await running.api.push();
    const none = "No delivery has failed in the 3 days that the git host keeps.\n";
    expect(await trace("--hook", "site")).toMatchObject({ code: 0, stdout: none });
  });

  test("a delivery without an answer has status 0, whatever the git host writes there", async () => {
    fault = () => ({ status: 0, headers: {}, body: "" });
    await running.api.push();
    const [found] = JSON.parse((await trace("--hook", "site", "--json")).stdout);
    expect(found).toMatchObject({ answer: { status: 0 }, nginx: "none", receiver: "none", hook: "site", host: "web1" });
  });

  test("a delivery by its id has the history's answer, too", async () => {
    const [sent] = await running.api.push();
    const by = (row: string) => new RegExp(`the git host's page +${row}`);
    const served = by('202 \\{"x-served-by":"pushgate-receiver"');
    expect(await trace("--delivery", sent!.delivery)).toMatchObject(ends(0, served));
    expect(await hosts.run("trace", "--delivery", sent!.delivery)).toMatchObject(ends(0, by("not looked at")));
  });

  test("the last 40 are traced by one connection to the host", async () => {
    for (let i = 0; i < 45; i++) await running.api.push();
    const { code, stdout } = await trace("--hook", "site", "--last", "40", "--json");
    const found = JSON.parse(stdout) as { outcomes: { name: string }[]; delivery: string }[];
    const wanted = running.api.log.slice(-40).reverse();
    expect(found.map(({ delivery }) => delivery)).toEqual(wanted.map(({ delivery }) => delivery));
    expect([code, new Set(found.map(({ outcomes }) => outcomes[0]?.name))]).toEqual([0, new Set(["accepted"])]);
  });

  test("the failed ones are grouped by their layer", async () => {
    await running.api.push();
    fault = () => byCloudflare(522);
    for (let i = 0; i < 2; i++) await running.api.push();
    fault = () => byCloudflare(526);
    await running.api.push();
    const { code, stdout } = await trace("--since", "3d");
    expect(stdout.replaceAll(/[\w-]{36}|\d{4}-[\d-]+T[\d:.]+Z/g, "…")).toMatchInlineSnapshot(`
      "3 deliveries failed of 4 in 3 days:

      rejected by 4 Cloudflare to origin: one delivery
        certain: what answers at the host's origin port does not have pushgate's origin certificate.
          fix: npx pulumi up. Then check that hosts[].address is the host's, and that no proxy lies before it.
        …  site on web1  push  …  526

      rejected by 5 firewall: 2 deliveries
        certain: Cloudflare could not connect to the host's origin port: a firewall drops its connections, or the host or nginx is down.
          fix: npx pushgate status, then npx pulumi preview. A hosting provider's firewall must let https://www.cloudflare.com/ips in on that port, too.
        …  site on web1  push  …  522
        …  site on web1  push  …  522
      "
    `);
    expect(code).toBe(1);
  });

  test("what is older than the history says so", async () => {
    const line = "The git host keeps 3 days: what failed before is not in its delivery history.\n";
    expect((await trace("--since", "9d")).stderr).toBe(line);
  });

  test("--redeliver sends nothing while the ping fails, then each once", async () => {
    fault = () => byCloudflare(522);
    for (let i = 0; i < 3; i++) await running.api.push();
    const again = () => running.api.log.filter(({ redelivery }) => redelivery);
    const redeliver = (...words: string[]) => trace("--since", "3d", "--redeliver", ...words);
    const refused = "nothing was delivered again: the ping did not arrive.";
    expect(await redeliver("--yes")).toMatchObject(ends(1, "", refused));
    expect(again()).toEqual([]);
    fault = undefined;
    const question = "This has the git host send 3 deliveries of site on web1 again. Nothing was changed";
    expect(await redeliver()).toMatchObject(ends(1, "", question));
    const done =
      /3 deliveries sent again:\n\ndelivered: 3 deliveries\n {2}certain: the receiver accepted the delivery\./;
    expect(await redeliver("--yes")).toMatchObject(ends(0, done));
    expect(again().map(({ got }) => got.status)).toEqual([202, 202, 202]);
    expect(new Set(again().map(({ delivery }) => delivery)).size).toBe(3);
    expect((await redeliver("--yes")).stdout).toContain("There is nothing to deliver again.");
  });

  test.each([
    ["--hook", "site"],
    ["--since", "3d"],
  ])("without the token %s says what it needs", async (...words) => {
    const line = "there is no git host's delivery history to read. site needs a token with";
    expect(await hosts.run("trace", ...words)).toMatchObject(ends(1, "", line));
  });

  test("a webhook that is missing says how to make it", async () => {
    running.api.webhooks.length = 0;
    expect((await trace("--hook", "site")).stderr).toContain(`has no webhook to ${url}. Run npx pushgate hook`);
  });
});

describe("audit", () => {
  test("a webhook as declared, one that differs, and a missing one", async () => {
    const printed = (line: string) => `Webhooks:\n  site on web1: ${line}\n`;
    const missing = printed("missing. Run npx pushgate hook site --set.");
    expect(await withToken("audit")).toMatchObject({ code: 7, stdout: missing });
    const made = add({ active: false });
    const differs = printed("active: off -> on. Run npx pushgate hook site --set.");
    expect(await withToken("audit")).toMatchObject({ code: 7, stdout: differs });
    made.active = true;
    expect(await withToken("audit")).toMatchObject({ code: 0, stdout: printed("as declared") });
    expect(writes()).toEqual([]);
  });

  test("without the token it looks at no webhook, and with a wrong one it could not look", async () => {
    expect(await hosts.run("audit")).toMatchObject({ code: 0, stdout: "" });
    expect(await with_("wrong-token-0123456789", "audit")).toMatchObject(ends(1, "site on web1: https://localhost"));
  });
});

describe("a git host without a record", () => {
  const run = (gitHost: string, path: string, token: string, ...words: string[]) => {
    const repository = `${running.origin}${path}/example/site.git`;
    hosts.configure([hostOf("web1")], [hookOf({ gitHost, repository, sources: ["198.51.100.7"] })], secrets);
    return hosts.runIn(process.cwd(), { [token]: running.api.token }, ...words);
  };

  test("gitea: --set sends its test, which is followed in the hosts' logs", async () => {
    const gitea = (...words: string[]) => run("gitea", "/gitea", "GITEA_TOKEN", ...words);
    const { code, stdout } = await gitea("hook", "site", "--set", "--yes");
    expect(stdout).toContain("certain: the receiver accepted the delivery.");
    expect(stdout).toContain("The git host has no ping: it sent its last commit as a push.");
    expect(stdout).toMatch(/the git host's page +not looked at/);
    expect(code).toBe(0);
    fault = () => byCloudflare(522);
    expect(await gitea("trace", "--ping")).toMatchObject(ends(3, /unknown[\s\S]*nginx +no line/));
    const page = "Gitea has no API for its delivery history: its page has it.";
    expect(await gitea("trace", "--hook", "site")).toMatchObject(ends(1, "", page));
  });

  test("bitbucket-data-center: --set creates the webhook, and the host sends the ping to its receiver itself", async () => {
    // Its connection gets no answer, and waits for none here.
    hosts.program(hosts.at("web1", "bin/perl"), "#!/bin/sh\n");
    const { stdout } = await run("bitbucket-data-center", "/scm", "BITBUCKET_TOKEN", "hook", "site", "--set", "--yes");
    expect(stdout).toContain("site on web1: the webhook is set.");
    expect(stdout).toContain("Bitbucket Data Center has no API for tests with a signature");
    expect(stdout).toContain("The host sent this ping to its receiver itself.");
  });
});

test("one token is not sent to two servers", async () => {
  const hook = (name: string, at: string) => hookOf({ name, repository: `${at}/example/site.git` });
  hosts.configure([hostOf("web1")], [hook("site", running.origin), hook("docs", "https://git.example.net")], secrets);
  const line = `${variable} would be sent to ${running.origin} and to https://git.example.net. Name one hook`;
  expect(await withToken("hook", "--set", "--yes")).toMatchObject(ends(1, "", line));
  expect(running.api.requests).toEqual([]);
});
