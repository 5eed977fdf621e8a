/** What is read in the answers of each API for webhooks: whole answers, and what a field's absence means. */
import { describe, expect, test } from "vitest";
import { nextLink, readWebhooks, recordedAnswer, webhookRequests } from "../../../../service/git-hosts/api/api.ts";
import { apis } from "../../../../service/git-hosts/api/index.ts";
import { type GitHostName, gitHostNames } from "../../../../service/git-hosts/index.ts";
import { repositoryOf } from "../../../../service/git-hosts/repository.ts";
import { type FamilyName, shownBy } from "../../../fakes/webhook-api.ts";

const apiOf = (name: GitHostName) => apis[name]!.webhooks;
const requestsOf = (name: GitHostName, repository = "https://git.example.net/example/site.git") =>
  webhookRequests(apis[name]!, repositoryOf(repository));
const withApi = gitHostNames.filter((name) => apis[name] !== undefined);
const url = "https://hooks.example.org/webhook/site";
const key = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const plain = "x".repeat(40);

describe("the settings of a webhook:", () => {
  const config = { url, content_type: "json", secret: "********", insecure_ssl: "0" };
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
  const unverified = { "TLS verification": "off" };

  // webhooks.test.ts has the webhook as pushgate made it.
  test.each<[GitHostName, string, change: object, settings: object]>([
    ["github", "no content type", { config: { ...config, content_type: undefined } }, { "content type": "form" }],
    ["github", "several events", { events: ["push", "issues"] }, { events: "issues, push" }],
    ["github", "events that are no list", { events: "push" }, { events: "" }],
    ["github", "no verification", { config: { ...config, insecure_ssl: 1 } }, unverified],
    ["github", "no secret", { config: { url } }, { secret: "none" }],
    ["github", "switched off", { active: false }, { active: "off" }],
    ["gitlab", "another branch", { push_events_branch_filter: "dev" }, { branches: "dev" }],
    [
      ...(["gitlab", "events that it names"] as const),
      { tag_push_events: true, job_events: true, issues_events: "true" },
      { events: "push, job, tag_push" },
    ],
    ["gitlab", "no push", { push_events: false }, { events: "" }],
    ["gitlab", "disabled after failures", { alert_status: "disabled" }, { active: "off" }],
    ["gitlab", "no verification", { enable_ssl_verification: false }, unverified],
    ["gitlab", "a secret token", {}, { "secret token": "set", "signing token": "none" }],
    ["gitlab", "a signing token", { signing_token_present: true }, { "signing token": "set" }],
    ["gitea", "a branch that ends like all", { branch_filter: "*dev" }, { branches: "*dev" }],
    ["gitea", "no branch filter", { branch_filter: "" }, { branches: "all" }],
    ["gitea", "a form", { config: { url, content_type: "form" } }, { "content type": "form" }],
    ["bitbucket", "no secret", { secret_set: false }, { secret: "none" }],
    ["bitbucket", "no verification", { skip_cert_verification: true }, unverified],
    ["bitbucket-data-center", "no secret", { configuration: {} }, { secret: "none" }],
    ["bitbucket-data-center", "no verification", { sslVerificationRequired: false }, unverified],
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
  const bodyOf = (name: GitHostName, secret: string) => requestsOf(name).create({ url, secret }).body;

  test.each([
    [plain, "token", "secret token"],
    [key, "signing_token", "signing token"],
  ])("has the secret under the name that signs with it: %s as %s", (secret, field, setting) => {
    const { token, signing_token } = bodyOf("gitlab", secret) as Record<string, unknown>;
    expect({ token, signing_token }).toEqual({ [field]: secret });
    expect(apiOf("gitlab").wanted({ url, secret })).toHaveProperty(setting, "set");
  });

  // webhooks.test.ts has each fake take the whole.
  test("to GitLab has push alone among the events, on all branches", () => {
    const body = bodyOf("gitlab", plain) as Record<string, unknown>;
    const events = Object.entries(body).filter(([name]) => name.endsWith("_events"));
    expect(events.length).toBe(14);
    expect(events.filter(([, on]) => on !== false)).toEqual([["push_events", true]]);
    const branches = { push_events_branch_filter: "", branch_filter_strategy: "all_branches" };
    expect(body).toMatchObject({ url, ...branches, enable_ssl_verification: true });
  });

  // webhooks.test.ts has the fakes take each token.
  test("to GitHub names the version of its API", () => {
    const version = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };
    expect(apis.github!.authorization("t")).toMatchObject(version);
  });

  test("and every page, permission and missing part that a person reads has words", () => {
    for (const name of withApi) {
      const { webhooks, status } = apis[name]!;
      for (const text of status ? [status.tokenPage, status.permission] : []) expect(text, name).toMatch(/\w+:? \w+/);
      const { tokenPage, permission, lacks, ping } = webhooks;
      for (const text of [tokenPage, permission, ...lacks]) expect(text, name).toMatch(/\w+:? \w+/);
      if (ping?.sends !== undefined) expect(ping.sends, name).toMatch(/^(its|a) \w+ /);
      if (ping === undefined) expect(lacks[0], name).toMatch(/no API for tests/);
      if (webhooks.deliveries === undefined) expect(lacks.at(-1), name).toMatch(/no API for .*its delivery history/);
    }
    const lackOf = (name: GitHostName) => apiOf(name).lacks.at(-1);
    expect(apiOf("github").lacks).toEqual([]);
    // GitLab's API answers so where its test was rejected.
    expect(apiOf("gitlab").ping!.rejected).toEqual([422]);
    expect([lackOf("gitea"), lackOf("forgejo")].map((text) => text?.split(" ")[0])).toEqual(["Gitea", "Forgejo"]);
  });

  const own = "https://git.example.net";
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

describe("the following page", () => {
  const answer = (body: unknown, link?: string) => ({ status: 200, headers: link === undefined ? {} : { link }, body });
  const asked = "https://git.example.net/hooks?limit=2&page=3";

  test.each([
    [undefined, undefined],
    ['<https://a.example/2>; rel="next"', "https://a.example/2"],
    ["<https://a.example/2>; rel=next", "https://a.example/2"],
    ['<https://a.example/2> ;title="x"; rel="next"', "https://a.example/2"],
    ['<https://a.example/1>; rel="prev", <https://a.example/3>; rel="next"', "https://a.example/3"],
    ['<https://a.example/1>; norel="next"', undefined],
  ])("of a Link header %j is %j", (link, page) => {
    expect(nextLink(answer([], link))).toBe(page);
  });

  test("of Bitbucket Data Center has the number that the body names", () => {
    const next = (body: unknown) => apiOf("bitbucket-data-center").next!(answer(body), asked);
    expect(next({ isLastPage: false, nextPageStart: 25 })).toBe(`${asked}&start=25`);
    for (const last of [{ isLastPage: true, nextPageStart: 25 }, { nextPageStart: 25 }, { isLastPage: false }])
      expect(next(last)).toBe(undefined);
    expect(next({ isLastPage: false, nextPageStart: null })).toBe(undefined);
  });
});

describe("an entry of the delivery history", () => {
  test("of GitHub has the attempt, the delivery and its status", () => {
    const { read, answer, days } = apiOf("github").deliveries!;
    expect(days).toBe(3);
    const record = { id: 1, guid: "g", delivered_at: "2026-11-23T12:00:00Z", status_code: 202, event: "push" };
    const asRead = { id: "1", delivery: "g", kind: "push", isPing: false, time: record.delivered_at, status: 202 };
    expect(read(record)).toEqual(asRead);
    expect(read({ ...record, event: "ping", status_code: null })).toEqual({
      ...{ ...asRead, kind: "ping", isPing: true, status: 0 },
    });
    const response = { headers: { A: "b" }, payload: "text" };
    expect(answer!({ status_code: 202, response })).toEqual({ status: 202, headers: { a: "b" }, body: "text" });
  });

  test("of GitLab has the headers of both directions", () => {
    const { read, days } = apiOf("gitlab").deliveries!;
    expect(days).toBe(7);
    const record = {
      ...{ id: 1, trigger: "push_hooks", request_headers: { "X-Gitlab-Event-UUID": "d", "Idempotency-Key": "e" } },
      ...{ response_headers: { Date: "Mon, 23 Nov 2026 12:00:00 GMT" }, response_body: "text", response_status: "202" },
    };
    const answer = { status: 202, headers: { date: "Mon, 23 Nov 2026 12:00:00 GMT" }, body: "text" };
    expect(read(record)).toEqual({
      ...{ id: "1", delivery: "e", kind: "push", isPing: false, time: "2026-11-23T12:00:00.000Z", status: 202, answer },
    });
    expect(read({ ...record, request_headers: { "X-Gitlab-Event-UUID": "d" } })).toMatchObject({ delivery: "d" });
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
