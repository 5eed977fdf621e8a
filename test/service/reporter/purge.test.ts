/** What `site.purge` removes from a cache that a rule of the zone fills, at the fake API, and what stays without it. */
import { afterAll, beforeEach, expect, test } from "vitest";
import { add, waiting } from "../../../service/builder/outbox.ts";
import { channelsOf } from "../../../service/reporter/channels.ts";
import { type Channels, type Line, sendAll, testAll } from "../../../service/reporter/send.ts";
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
  const about = { commit: "1".repeat(40), state: "success", reason: "", at: new Date().toISOString() } as const;
  add(folder, { to: "purge", ...about, ...(paths && { paths }) });
};
const fill = (...urls: string[]) => {
  for (const url of urls) cache.add(url);
};
const quick = { first: 20, longest: 80, age: 60_000, look: 10, answer: 5 };
const always = async () => true;
const channels = (more: { purge?: string }) =>
  channelsOf({ settings: { hook: "site", folder, site, notify: [], ...more }, secrets: { purge: token, notify: {} } });
const sendTo = (to: Channels) => sendAll(folder, to, (line) => void lines.push(line), always, quick);
const send = () => sendTo(channels({ purge: `${api.url}/zones/${api.zone.id}/purge_cache` }));

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
  await sendTo(channels({}));
  expect([cache.size, waiting(folder)]).toEqual([7, []]);
  expect(await testAll(channels({ purge: api.url }), always)).toEqual([]);
  put(paths);
  expect(await send()).toBe(true);
  expect([...cache]).toEqual(others);
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
  expect([...cache]).toEqual([other]);
  expect(api.requests.map(({ body }) => body)).toEqual([{ hosts: ["www.example.org"] }, { files: [`${site}b`] }]);
});
