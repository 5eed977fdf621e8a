/** What `site.purge` removes from a cache that a rule of the zone fills, at the fake API, and what stays without it. */
import { afterAll, beforeEach, expect, test } from "vitest";
import { add, type Report, waiting } from "../../../service/builder/outbox.ts";
import { channelsOf } from "../../../service/reporter/channels.ts";
import { type Line, sendAll, testAll } from "../../../service/reporter/send.ts";
import { apiToken, permissions, startApi } from "../../fakes/cloudflare/api.ts";
import { cacheOf } from "../../fakes/cloudflare/cache.ts";
import { emptyZone } from "../../fakes/cloudflare/zone.ts";
import { folder, onFolder } from "../own-folder.ts";

const token = "a-token-that-may-only-purge";
const tokens = { [token]: ["Cache Purge"], [apiToken]: permissions };
const api = await startApi({ zone: emptyZone("example.org", "free"), tokens });
afterAll(() => api.close());
onFolder();

const [site, other] = ["https://www.example.org/", "https://docs.example.org/"];
const cache = cacheOf(api.zone);
let lines: Line[];
beforeEach(() => {
  lines = [];
  cache.clear();
  api.requests.length = 0;
});

const put = (paths?: readonly string[]) => {
  const report: Report = {
    to: "purge",
    commit: "1".repeat(40),
    state: "success",
    reason: "",
    at: new Date().toISOString(),
  };
  add(folder, { ...report, ...(paths && { paths }) });
};
const fill = (...urls: string[]) => {
  for (const url of urls) cache.set(url, { headers: [], body: Buffer.from("old") });
};
const quick = { first: 20, longest: 80, age: 60_000, look: 10, answer: 5 };
const send = (purge: string | undefined = token, zone = api.zone.id) => {
  const settings = { hook: "site", folder, site, notify: [], purge: `${api.url}/zones/${zone}/purge_cache` };
  return sendAll(
    folder,
    channelsOf({ settings, secrets: { purge, notify: {} } }),
    (line) => void lines.push(line),
    async () => true,
    quick,
  );
};

test("a page is purged as visitors request it, and nothing else; without a token all stays", async () => {
  const pages = [
    `${site}posts/caf%C3%A9/`,
    `${site}posts/caf%C3%A9/index.html`,
    `${site}100%25%3F%23.txt`,
    `${site}a+b,c.txt`,
  ];
  const others = [site, `${site}posts/`, `${other}a+b,c.txt`];
  const paths = ["posts/café/", "posts/café/index.html", "100%?#.txt", "a+b,c.txt"];
  fill(...pages, ...others);
  put(paths);
  const settings = { hook: "site", folder, site, notify: [] };
  await sendAll(
    folder,
    channelsOf({ settings, secrets: { purge: token, notify: {} } }),
    () => {},
    async () => true,
    quick,
  );
  expect([cache.size, waiting(folder)]).toEqual([7, []]);
  const channels = channelsOf({ settings: { ...settings, purge: api.url }, secrets: { purge: token, notify: {} } });
  expect(await testAll(channels, async () => true)).toEqual([]);
  put(paths);
  expect(await send()).toBe(true);
  expect([...cache.keys()]).toEqual(others);
  expect(lines).toMatchObject([{ to: "purge", result: "sent", reason: "200", host: new URL(api.url).host }]);
});

test.each(["//evil.example/x", "https://evil.example/x", "/@evil.example", "\\\\evil.example", "../x"])(
  "the path %j leads to no other site",
  async (path) => {
    put([path]);
    expect(await send()).toBe(true);
    expect(api.requests[0]!.body.files).toEqual([expect.stringMatching(/^https:\/\/www\.example\.org\//)]);
  },
);

test("without paths the site's hostname is purged, once, and what waits before it is not sent", async () => {
  fill(site, `${site}a`, other);
  put(["a"]);
  put();
  put(["b"]);
  expect(await send()).toBe(true);
  expect([...cache.keys()]).toEqual([other]);
  expect(api.requests.map(({ body }) => body)).toEqual([{ hosts: ["www.example.org"] }, { files: [`${site}b`] }]);
});

test.each<[what: string, reason: RegExp, ...Parameters<typeof send>]>([
  ["a token without the permission", /^403 .*Authentication error/, apiToken],
  ["a token that is revoked", /^40[013] /, "another-token-0123456789"],
  ["another zone", /^404 /, token, "0".repeat(32)],
])(
  "%s is dropped after one request, with the answer in the journal and without the token",
  async (_, reason, ...given) => {
    put();
    expect(await send(...given)).toBe(false);
    expect(lines).toMatchObject([{ to: "purge", result: "dropped", reason: expect.stringMatching(reason) }]);
    expect([api.requests.length, JSON.stringify(lines).includes(given[0]!)]).toEqual([1, false]);
  },
);

test("more URLs than Cloudflare takes at once are rejected, and so is a URL of another zone", async () => {
  const headers = { authorization: `Bearer ${token}` };
  const url = `${api.url}/zones/${api.zone.id}/purge_cache`;
  for (const body of [
    { files: Array(31).fill(site) },
    { files: ["https://example.net/"] },
    {},
    { hosts: [], files: [] },
  ])
    expect((await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status).toBe(400);
});

test("a limit of Cloudflare's rate delays a purge, and loses none", async () => {
  fill(site);
  api.faults.push({ path: /purge_cache/, times: 2, status: 429 });
  put([""]);
  expect(await send()).toBe(true);
  expect([lines.map(({ result }) => result), cache.size]).toEqual([["delayed", "delayed", "sent"], 0]);
});
