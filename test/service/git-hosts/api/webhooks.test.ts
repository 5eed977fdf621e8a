/** Each git host's API for webhooks against its fake: what is sent where, and what is read. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { newSecret } from "../../../../infra/cli/stack/secret.ts";
import { signedPing } from "../../../../infra/cli/webhook/ping-on-host.ts";
import { clientOf, differences, leadsTo, type WebhookClient } from "../../../../infra/cli/webhook/webhooks.ts";
import type { Wanted } from "../../../../service/git-hosts/api/api.ts";
import { apis } from "../../../../service/git-hosts/api/index.ts";
import type { Signature } from "../../../../service/git-hosts/hmac-signature.ts";
import { type GitHostName, gitHostNames, gitHosts } from "../../../../service/git-hosts/index.ts";
import { decide } from "../../../../service/git-hosts/payload.ts";
import type { Delivery } from "../../../fakes/deliveries.ts";
import { trust } from "../../../fakes/https-server.ts";
import { type Got, type RunningWebhookApi, type StoredWebhook, startWebhookApi } from "../../../fakes/webhook-api.ts";

let running: RunningWebhookApi;
const got: Got = { status: 202, headers: { "x-served-by": "pushgate-receiver" }, body: "" };
const sent: Delivery[] = [];
/** Origins that were connected to, each with the token in a header of the request. */
const origins = new Set<string>();

/** Leads each origin to the fake, which names its own in the address of a following page. */
vi.mock("../../../../service/exchange.ts", async (original) => {
  const real = await original<typeof import("../../../../service/exchange.ts")>();
  const exchange: typeof real.exchange = async (outgoing, bounds) => {
    const { origin, pathname, search } = new URL(outgoing.url);
    origins.add(origin);
    const answer = await real.exchange({ ...outgoing, url: `${running.origin}${pathname}${search}` }, bounds);
    const { link } = answer.headers;
    return { ...answer, headers: { ...answer.headers, link: `${link}`.replace(running.origin, origin) } };
  };
  return { ...real, exchange };
});

const repositories: Partial<Record<GitHostName, string>> = {
  github: "https://github.com/example/site.git",
  "github-enterprise": "https://git.example.net/example/site.git",
  gitlab: "git@altssh.gitlab.com:example/site.git",
  "gitlab-self-managed": "https://git.example.net/example/site.git",
  gitea: "https://git.example.net/gitea/example/site.git",
  forgejo: "https://git.example.net/forgejo/example/site.git",
  gogs: "https://git.example.net/gogs/example/site.git",
  bitbucket: "git@bitbucket.org:example/site.git",
  "bitbucket-data-center": "https://git.example.net/scm/example/site.git",
};
const apiOrigins: Partial<Record<GitHostName, string>> = {
  github: "https://api.github.com",
  gitlab: "https://gitlab.com",
  bitbucket: "https://api.bitbucket.org",
};
const withApi = gitHostNames.filter((name) => apis[name] !== undefined);
const url = "https://hooks.example.org/webhook/site";

beforeAll(async () => {
  running = await startWebhookApi(async (one) => {
    sent.push(one);
    return got;
  });
  trust(running.ca);
});
afterAll(() => {
  vi.unstubAllEnvs();
  return running.close();
});
beforeEach(() => {
  origins.clear();
});
afterEach(async () => {
  await Promise.all(running.api.pending);
  running.api.webhooks.length = 0;
  running.api.log.length = 0;
  running.api.requests.length = 0;
  running.api.instead = undefined;
  sent.length = 0;
});

const hookOf = (gitHost: GitHostName) => ({ name: "site", gitHost, repository: repositories[gitHost]! });
function client(gitHost: GitHostName, token: string = running.api.token): WebhookClient {
  vi.unstubAllEnvs();
  vi.stubEnv(apis[gitHost]!.variable, token);
  return clientOf(hookOf(gitHost))!;
}
const wantedOf = (gitHost: GitHostName) => ({ url, secret: newSecret(gitHost) });

test("GitLab's variable has a token, and an empty one none", () => {
  vi.unstubAllEnvs();
  vi.stubEnv("GITLAB_TOKEN", "x");
  expect(clientOf(hookOf("gitlab"))).toBeDefined();
  vi.stubEnv("GITHUB_TOKEN", " ");
  expect(clientOf(hookOf("github"))).toBeUndefined();
});

async function pinged(its: WebhookClient, wanted: Wanted, verify: Signature["verify"]) {
  await Promise.all(running.api.pending);
  sent.length = 0;
  await its.ping((await its.own(wanted))[0]!, wanted);
  await Promise.all(running.api.pending);
  expect(sent.map(({ headers, body }) => verify(wanted.secret, body, headers))).toEqual([true]);
}

describe.each(withApi)("%s", (gitHost) => {
  test("a webhook is created as wanted, each setting that its API shows is corrected, and no other webhook is touched", async () => {
    const wanted = wantedOf(gitHost);
    const its = client(gitHost);
    await its.set(undefined, { ...wanted, url: "https://hooks.example.org/webhook/other" });
    await its.set(undefined, wanted);
    const [other, own] = running.api.webhooks as [StoredWebhook, StoredWebhook];
    expect(own).toMatchObject({ url, secret: wanted.secret, active: true, verifies: true });
    expect(differences((await its.own({ url }))[0]!.settings, its.api.wanted(wanted))).toEqual([]);
    expect([...origins]).toEqual([apiOrigins[gitHost] ?? "https://git.example.net"]);
    const kept = structuredClone(other);
    Object.assign(own, { secret: "", active: false, contentType: "form", verifies: false });
    own.events = [...own.events, gitHost === "bitbucket" ? "repo:fork" : "issues"];
    const [before] = await its.own({ url });
    const drift = differences(before!.settings, its.api.wanted(wanted)).map(({ name }) => name);
    const same = ["branches", "secret token"]; // no webhook of this test has others
    const all = Object.keys({ ...before!.settings, ...its.api.wanted(wanted) });
    expect(new Set([...same, ...drift])).toEqual(new Set([...same, ...all]));
    await its.set(before, wanted);
    // A test puts a webhook of GitLab's on again.
    if (its.api.ping) await pinged(its, wanted, gitHosts[gitHost].verify);
    const [after] = await its.own({ url });
    expect(differences(after!.settings, its.api.wanted(wanted))).toEqual([]);
    expect(running.api.webhooks.find(({ url: at }) => at === url)!.secret).toBe(wanted.secret);
    expect(running.api.webhooks).toHaveLength(2);
    expect(running.api.webhooks.find(({ id }) => id === kept.id)).toEqual(kept);
  });

  test("its own webhook is found on a later page", async () => {
    const its = client(gitHost);
    const wanted = wantedOf(gitHost);
    await its.set(undefined, wanted);
    const [own] = running.api.webhooks as [StoredWebhook];
    const others = Array.from({ length: 205 }, (_, i) => ({ ...own, id: own.id + 1 + i, url: `${url}${i}` }));
    running.api.webhooks.unshift(...others);
    running.api.requests.length = 0;
    expect(await its.own({ url })).toHaveLength(1);
    // Gogs has one list, Gitea and Forgejo 50 on a page, the others 100.
    expect(running.api.requests).toHaveLength(gitHost === "gogs" ? 1 : /gitea|forgejo/.test(gitHost) ? 5 : 3);
  });

  test.each([
    ["wrong", "another-token-0123456789", /answered 401 .* [A-Z_]+_TOKEN is no valid token: make one at/],
    ["reader", "reader-0123456789abcdefghij", /answered 40[13] /],
  ])("a token that is %s is rejected and not repeated", async (_, token, message) => {
    const failed = await client(gitHost, token)
      .own({ url })
      .catch((error: Error) => error.message);
    expect(failed).toMatch(message);
    expect(failed).not.toContain(token);
  });

  test("its ping, signed by pushgate itself, is a delivery that the receiver ignores", () => {
    const { secret } = wantedOf(gitHost);
    const { signatureFault, verify, payload, deliveryHeader, mark } = gitHosts[gitHost];
    const { headers, body } = signedPing(gitHosts[gitHost], secret, "id-1")!;
    expect(signatureFault(headers)).toBeUndefined();
    expect(verify(secret, Buffer.from(body), headers)).toBe(true);
    expect(decide(payload, headers, Buffer.from(body), "main")).toEqual({ ignored: "ping" });
    expect([headers[deliveryHeader], headers[mark]]).toEqual(["id-1", expect.stringMatching(/ping|id-1/i)]);
  });
});

describe.each(["github", "gitlab"] as const)("the delivery history of %s", (gitHost) => {
  async function pushed(count: number) {
    const its = client(gitHost);
    const wanted = wantedOf(gitHost);
    await its.set(undefined, wanted);
    await Promise.all(running.api.pending);
    running.api.log.length = 0;
    for (let i = 0; i < count; i++) await running.api.push();
    return { its, webhook: (await its.own({ url }))[0]! };
  }

  test("has each delivery with its answer, page by page, the newest first", async () => {
    const { its, webhook } = await pushed(205);
    const all = await its.recorded(webhook, () => false);
    expect(all.map(({ id }) => Number(id))).toEqual(running.api.log.map(({ id }) => id).reverse());
    expect(all[0]).toMatchObject({ kind: "push", isPing: false, status: 202 });
    const some = await its.recorded(webhook, (_, count) => count >= 3);
    expect(await Promise.all(some.map((one) => its.answer(webhook, one)))).toEqual(
      Array(3).fill({ ...got, headers: expect.objectContaining(got.headers) }),
    );
  });

  test("another attempt at a delivery has its event", async () => {
    const { its, webhook } = await pushed(1);
    const [first] = await its.recorded(webhook, () => false);
    await its.redeliver(webhook, first!);
    await Promise.all(running.api.pending);
    const [again, ...rest] = await its.recorded(webhook, () => false);
    expect([again!.delivery, again!.id === first!.id, rest.length]).toEqual([first!.delivery, false, 1]);
  });
});

test("a following page elsewhere gets no token, and would, without the check of its origin", async () => {
  const [own, elsewhere] = ["https://api.github.com", "https://elsewhere.example.net"];
  const last = { status: 200, body: [] };
  const first = { ...last, headers: { link: `<${elsewhere}/x>; rel="next"` } };
  running.api.instead = first;
  const its = client("github");
  await expect(its.own({ url })).rejects.toThrow("The token is not sent there.");
  expect([...origins]).toEqual([own]);
  origins.clear();
  const get = () => {
    running.api.instead = origins.size === 0 ? first : last;
    return origins.size === 0 ? own : elsewhere;
  };
  Object.defineProperty(its.server, "origin", { get });
  await its.own({ url });
  expect([...origins]).toEqual([own, elsewhere]);
});

test("a list that is no JSON or is cut is an error, not an empty list; null is one", async () => {
  const listed = (body: string) => {
    running.api.instead = { status: 200, body };
    return client("gitea").own({ url });
  };
  for (const body of ["<html>Log in</html>", '[{"id":1'])
    await expect(listed(body)).rejects.toThrow("example.net (200) is not JSON, or is larger than 16 MiB.");
  expect(await listed("null")).toEqual([]);
});

test.each([
  ["https://hooks.example.org/webhook/site/", true],
  ["http://HOOKS.example.org:80/webhook/site?x", true],
  ["https://hooks.example.org/webhook/site2", false],
  ["https://hooks2.example.org/webhook/site", false],
  ["no url", false],
])("whether %s is pushgate's own webhook: %s", (found, is) => {
  expect(leadsTo(found, url)).toBe(is);
});
