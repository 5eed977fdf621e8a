/** What is read in the answers of each API for webhooks, what a field's absence means, and how the result of a build is set. */
import { describe, expect, test } from "vitest";
import {
  nextLink,
  readWebhooks,
  recordedAnswer,
  statusRequest,
  webhookRequests,
} from "../../../../service/git-hosts/api/api.ts";
import { apis } from "../../../../service/git-hosts/api/index.ts";
import { type GitHostName, gitHostNames } from "../../../../service/git-hosts/index.ts";
import { repositoryOf } from "../../../../service/git-hosts/repository.ts";
import { type FamilyName, shownBy } from "../../../fakes/webhook-api.ts";

const apiOf = (name: GitHostName) => apis[name]!.webhooks;
const requestsOf = (name: GitHostName, repository = `${own}/example/site.git`) =>
  webhookRequests(apis[name]!, repositoryOf(repository));
const withApi = gitHostNames.filter((name) => apis[name] !== undefined);
const url = "https://hooks.example.org/webhook/site";
const own = "https://git.example.net";
const plain = "x".repeat(40);

describe("the settings of a webhook:", () => {
  const usual = { repository: "", contentType: "json", secret: plain, active: true, verifies: true };
  /** As the fake of each API shows a webhook that pushgate made. */
  const madeAt = (family: FamilyName) =>
    shownBy({ ...usual, id: 7, family, url, events: [/^bit/.test(family) ? "repo:push" : "push"] });
  const settingsOf = (name: GitHostName, change: object = {}): object => {
    const hook = { ...madeAt(name as FamilyName), ...change };
    const [one] = readWebhooks(apiOf(name), /bitbucket/.test(name) ? { values: [hook] } : [hook]);
    expect(one).toMatchObject({ id: name === "bitbucket" ? "{7}" : "7", url });
    return one!.settings;
  };

  // webhooks.test.ts has the webhook as pushgate made it, and each setting of it changed.
  test.each<[GitHostName, string, change: object, settings: object]>([
    ["github", "no content type", { config: { url } }, { "content type": "form" }],
    ["github", "events that are no list", { events: "push" }, { events: "" }],
    ["github", "two events, and off", { active: false, events: ["push", "b"] }, { active: "off", events: "b, push" }],
    ["gitlab", "another branch", { push_events_branch_filter: "dev" }, { branches: "dev" }],
    [
      ...(["gitlab", "events that it names"] as const),
      { tag_push_events: true, job_events: true, issues_events: "true" },
      { events: "push, job, tag_push" },
    ],
    ["gitlab", "no push", { push_events: false }, { events: "" }],
    ["gitlab", "a secret token", {}, { "secret token": "set", "signing token": "none" }],
    ["gitea", "a filter that begins and ends like all", { branch_filter: "*dev*" }, { branches: "*dev*" }],
    ["gitea", "no branch filter", { branch_filter: "" }, { branches: "all" }],
  ])("%s with %s", (name, _, change, settings) => {
    expect(settingsOf(name, change)).toMatchObject(settings);
  });

  test.each<[GitHostName, absent: string[], shown: string[]]>([
    ["gitlab", ["alert_status", "token_present", "signing_token_present"], ["events", "branches", "TLS verification"]],
    ["gogs", ["branch_filter"], ["content type", "events", "active"]],
    ["bitbucket-data-center", ["sslVerificationRequired"], ["events", "active", "secret"]],
  ])("%s of an older version, which does not show %o", (name, absent, shown) => {
    const change = Object.fromEntries(absent.map((field) => [field, undefined]));
    expect(Object.keys(settingsOf(name, change))).toEqual(shown);
  });

  test.each(withApi)("an answer of %s that is no list has none", (name) => {
    for (const body of [undefined, null, "text", 7, {}, { values: 7 }])
      expect(readWebhooks(apiOf(name), body)).toEqual([]);
  });
});

describe("what is sent", () => {
  // webhooks.test.ts has each fake take the whole, and a signing token.
  test("to GitLab has a secret token under its name, and push alone among the events, on all branches", () => {
    expect(apiOf("gitlab").wanted({ url, secret: plain })).toHaveProperty("secret token", "set");
    const body = requestsOf("gitlab").create({ url, secret: plain }).body as Record<string, unknown>;
    expect(body).toMatchObject({ token: plain });
    const events = Object.entries(body).filter(([name]) => name.endsWith("_events"));
    expect(events.length).toBe(14);
    expect(events.filter(([, on]) => on !== false)).toEqual([["push_events", true]]);
    const branches = { push_events_branch_filter: "", branch_filter_strategy: "all_branches" };
    expect(body).toMatchObject({ url, ...branches, enable_ssl_verification: true });
  });

  test.each<[GitHostName, fields: object]>([
    ["github", { name: "web", config: { insecure_ssl: "0" } }],
    ["bitbucket", { description: "pushgate" }],
    ["bitbucket-data-center", { name: "pushgate" }],
  ])("to %s for a new webhook has %o", (name, fields) => {
    expect(requestsOf(name).create({ url, secret: plain }).body).toMatchObject(fields);
  });

  test("to GitHub names its API's type and version, and GitLab's status for a test that was rejected is known", () => {
    const ofApi = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };
    expect(apis.github!.authorization("t")).toMatchObject(ofApi);
    expect(apiOf("gitlab").ping!.rejected).toEqual([422]);
  });

  test("and every page and permission that a person reads has words, and each part that an API lacks a sentence", () => {
    for (const name of withApi) {
      const { webhooks, status = webhooks } = apis[name]!;
      const { tokenPage, permission, lacks, ping: tests, deliveries } = webhooks;
      for (const text of [tokenPage, permission, status.tokenPage ?? tokenPage, status.permission])
        expect(text, name).toMatch(/\w+:? \w+/);
      // GitLab's sentence has the command that stores a secret token.
      const has = { tests, "delivery history": deliveries, "--path pushgate": !name.startsWith("gitlab") };
      const found = lacks.flatMap((text) => text.match(/tests|delivery history|--path pushgate/g) ?? text);
      expect(found, name).toEqual(Object.entries(has).flatMap(([part, its]) => (its ? [] : part)));
    }
  });

  const [dataCenter, rest] = ["bitbucket-data-center", "rest/api/latest/projects"] as const;
  const hundred = "hooks?per_page=100";
  test.each<[GitHostName, string, string]>([
    ["github", "ssh://git@ssh.github.com:443/a/b.git", `https://api.github.com/repos/a/b/${hundred}`],
    ["github-enterprise", "acme@acme.ghe.com:a/b.git", `https://api.acme.ghe.com/repos/a/b/${hundred}`],
    ["gitlab", "git@altssh.gitlab.com:a/b/c.git", "https://gitlab.com/api/v4/projects/a%2Fb%2Fc/hooks?per_page=100"],
    ["gitlab", `${own}:8443/a/b.git`, `${own}:8443/api/v4/projects/a%2Fb/hooks?per_page=100`],
    [dataCenter, `${own}/scm/below/scm/proj/site.git`, `${own}/scm/below/${rest}/proj/repos/site/webhooks?limit=100`],
    [dataCenter, "ssh://git@git.example.net:7999/~user/site.git", `${own}/${rest}/~user/repos/site/webhooks?limit=100`],
  ])("to the list of %s for %s goes to %s", (name, repository, list) => {
    expect(requestsOf(name, repository).list.url).toBe(list);
  });
});

test.each([
  ["<https://a.example/2>; rel=next", "https://a.example/2"],
  ['<https://a.example/2> ;title="x"; rel="next"', "https://a.example/2"],
  ['<https://a.example/1>; rel="prev", <https://a.example/3>; rel="next"', "https://a.example/3"],
  ['<https://a.example/1>; norel="next"', undefined],
])("the following page of a Link header %j is %j", (link, page) => {
  expect(nextLink({ status: 200, headers: { link }, body: [] })).toBe(page);
});

test("Bitbucket Data Center has no following page where the body names no number or is the last", () => {
  const next = (body: object) => apiOf("bitbucket-data-center").next!({ status: 200, headers: {}, body }, url);
  expect(next({ isLastPage: false, nextPageStart: null })).toBeUndefined();
  expect(next({ isLastPage: true, nextPageStart: 100 })).toBeUndefined();
});

// webhooks.test.ts has entries as pushgate's deliveries leave them.
describe("an entry of the delivery history", () => {
  test("of GitHub is read with GET, may be a ping, and may have no status", () => {
    expect(requestsOf("github").delivery("7", "1").method).toBe("GET");
    const record = { id: 1, guid: "g", delivered_at: "2026-11-23T12:00:00Z", status_code: null, event: "ping" };
    const asRead = { id: "1", delivery: "g", kind: "ping", isPing: true, time: record.delivered_at, status: 0 };
    expect(apiOf("github").deliveries!.read(record)).toEqual(asRead);
  });

  test("of GitLab has the time of its answer, and of an older GitLab the id of its event", () => {
    const { read, days } = apiOf("gitlab").deliveries!;
    expect(days).toBe(7);
    const record = {
      ...{ id: 1, trigger: "push_hooks", request_headers: { "X-Gitlab-Event-UUID": "d" }, response_status: "202" },
      response_headers: { Date: "Mon, 23 Nov 2026 12:00:00 GMT" },
    };
    expect(read(record)).toMatchObject({ delivery: "d", time: "2026-11-23T12:00:00.000Z", status: 202 });
    const unknown = { id: "2", delivery: "", kind: "tag_push_hooks_x", isPing: false, status: 0 };
    expect(read({ id: 2, trigger: unknown.kind })).toEqual({ ...unknown, answer: { status: 0, headers: {} } });
  });

  test("has no status where it has no headers, and a body only as text", () => {
    expect(recordedAnswer(502, {}, "x")).toEqual({ status: 0, headers: {} });
    const headers = { "set-cookie": "a, b", age: "7", other: "" };
    const recorded = recordedAnswer("teapot", { "Set-Cookie": ["a", "b"], Age: 7, Other: {} }, { not: "text" });
    expect(recorded).toEqual({ status: 0, headers });
  });
});

const commit = "a".repeat(40);
const result = { commit, state: "failure", reason: "Hugo failed.", context: "pushgate/web1/site" } as const;
const site = "https://www.example.org/";
const at = (name: GitHostName, repository: string, more: object = {}) =>
  statusRequest(apis[name], repositoryOf(repository), { ...result, ...more }, "the-token")!;

test.each([
  ["https://git.example.net:3000/a/b/c", "https://git.example.net:3000", ["a", "b", "c"]],
  ["https://git.example.net/a/b//", "https://git.example.net", ["a", "b"]],
  ["https://github.com/example/example.github.io", "https://github.com", ["example", "example.github.io"]],
  ["ssh://git@git.example.net:2222/a/b.git", "https://git.example.net", ["a", "b"]],
  ["git@git.example.net:/a/b.git", "https://git.example.net", ["a", "b"]],
])("the API of %s is at %s", (address, origin, names) => {
  expect(repositoryOf(address)).toMatchObject({ origin, names });
});

const described = { description: "Hugo failed.", target_url: site };
const byContext = { context: result.context, ...described };
const byKey = { key: expect.stringMatching(/^pushgate-[0-9a-f]{16}$/), name: result.context, url: site };
const ofBitbucket = { ...byKey, description: "Hugo failed." };
const ofGitlab = { name: result.context, ...described };
const [lower, upper] = ["pending success failure", "INPROGRESS SUCCESSFUL FAILED"];
test.each<[GitHostName, string, object, states: string]>([
  ["github", `https://api.github.com/repos/a/b/statuses/${commit}`, byContext, lower],
  ["github-enterprise", `${own}/api/v3/repos/a/b/statuses/${commit}`, byContext, lower],
  ["gitlab", `${own}/api/v4/projects/a%2Fb/statuses/${commit}`, ofGitlab, "running success failed"],
  ["gitea", `${own}/api/v1/repos/a/b/statuses/${commit}`, byContext, lower],
  ["bitbucket", `https://api.bitbucket.org/2.0/repositories/a/b/commit/${commit}/statuses/build`, ofBitbucket, upper],
  ["bitbucket-data-center", `${own}/rest/api/latest/projects/a/repos/b/commits/${commit}/builds`, ofBitbucket, upper],
])("%s: the result of a commit goes to its API, with the token in the headers alone", (name, to, body, states) => {
  const headers = apis[name]!.authorization("the-token");
  for (const [i, state] of lower.split(" ").entries()) {
    const sent = at(name, `${own}/a/b.git`, { state, url: site });
    expect(sent).toEqual({ url: to, headers, body: { ...body, state: states.split(" ")[i] } });
  }
});

test("Bitbucket needs a URL, and gets the commit's page, and has a key for each build", () => {
  const repository = `${own}/example/site.git`;
  expect(at("github", repository).body.target_url).toBeUndefined();
  const keyOf = (context: string) => at("bitbucket", repository, { context }).body.key;
  expect(keyOf("another")).not.toBe(keyOf(result.context));
  expect(at("bitbucket", repository).body.url).toBe(`https://bitbucket.org/example/site/commits/${commit}`);
  expect(at("bitbucket-data-center", "ssh://git@git.example.net:7999/proj/site.git").body.url).toBe(
    `${own}/projects/proj/repos/site/commits/${commit}`,
  );
});

test("a reason is cut where the API takes no more, by characters", () => {
  for (const name of gitHostNames) {
    if (apis[name]?.status === undefined) continue;
    const fish = "\u{1f41f}";
    const [longest, shown] = name.startsWith("github") ? [140, "?"] : [255, fish];
    const whole = shown.repeat(longest);
    const of = (reason: string) => at(name, `${own}/a/b`, { reason }).body.description!;
    const reasons = [fish.repeat(longest), `${fish.repeat(longest)}x`];
    expect(reasons.map(of)).toEqual([whole, whole.replace(/.$/u, "…")]);
  }
});

test("Gogs and senders that hold no repository have no API for results", () => {
  const without = gitHostNames.filter((name) => apis[name]?.status === undefined);
  expect(without).toEqual(["gogs", "standard-webhooks"]);
  for (const name of without)
    expect(statusRequest(apis[name], repositoryOf("https://x.example/a/b"), result, "t")).toBeUndefined();
});
