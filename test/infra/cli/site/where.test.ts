/** `npx pushgate where`: what hosts report of a commit, and the public page, whose server alone is not real. */
import { utimesSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { exchange } from "../../../../service/exchange.ts";
import { ends, Hosts, hookOf, releases, status } from "../hosts.ts";

vi.mock("../../../../service/exchange.ts", async (original) => ({ ...(await original<object>()), exchange: vi.fn() }));

const hosts = new Hosts();

const commit = "0123456789".repeat(4);
const site = "var/lib/pushgate-sites/site";
const run = {
  ...{ number: 7, result: "published", reason: "R", commit, at: "2026-11-28T10:00:00.000Z", warnings: [], trigger: [] },
  ...{ release: releases[0]!.id, milliseconds: {} },
};
const write = (changed: object, host = "web1") =>
  hosts.write(`${host}/${site}/work/runs/000000007.json`, `${JSON.stringify({ ...run, ...changed })}\n""\n`);
const answer = (headers: Readonly<Record<string, string>> = {}) =>
  vi.mocked(exchange).mockResolvedValue({ status: 200, headers: { "cf-ray": "1", ...headers }, text: "" });
const mark = '"64-5"';
/** Its ETag is the second 100 in hexadecimal digits, and its length. */
function page(path: string, text: string): void {
  utimesSync(hosts.write(path, text), 100, 100);
}
const pages = { webRoot: "/var/www/site", hostname: "www.example.org" };

beforeEach(() => {
  for (const name of ["web1", "web2"]) hosts.add(name);
  page(`web1/${site}/current/index.html`, "12345");
  page(`web2/${site}/current/index.html`, "123456");
  hosts.configure(["web1", "web2"], [hookOf({ site: pages })]);
  answer({ etag: mark, "cf-cache-status": "DYNAMIC" });
});
afterEach(() => {
  vi.mocked(exchange).mockReset();
  vi.unstubAllEnvs();
});

const next = { failing: { since: "", attempts: 2, next: "2026-11-28T11:00:00Z" } };
const deployed = (release: string) => status({ deployed: { release, commit: "c".repeat(40), at: "", warnings: [] } });

test.each<[text: RegExp, code: number, run: object, json?: ReturnType<typeof status>]>([
  [/published: .* ago \(2026-11-28T10:00:00Z\) as 000003-\w+ with 0123456$/m, 0, {}],
  [/published: .* with aaaaaaa$/m, 0, { commit: "a".repeat(40), commits: ["0123456789".repeat(2).slice(0, 12)] }],
  [/published: .* as 000003-\w+ with 0123456; now 000004-a is$/m, 0, {}, deployed("000004-a")],
  [/rolled back: .* as 000003-\w+; now 000002-b is$/m, 1, {}, deployed("000002-b")],
  [/building: /, 1, { result: "running" }],
  [/failed: .*: R; the next attempt is by 2026-11-28T11:00:00Z$/m, 1, { result: "failed" }, status(next)],
  [/ignored: .*: R$/m, 1, { result: "nothing" }],
])("a commit is %s", async (text, code, changed, json = status()) => {
  hosts.write(`web1/${site}/status.json`, JSON.stringify(json));
  write(changed);
  const ran = await hosts.run("where", commit, "--host", "web1");
  expect(ran).toMatchObject(ends(code, text));
  expect([ran.stdout.startsWith("site on web1: "), hosts.connections("web1")]).toEqual([true, 1]);
});

test.each<[text: string, code: number, headers: Readonly<Record<string, string>>, more?: object]>([
  [`ETag W/${mark}, as on web1\n`, 0, { etag: `W/${mark}` }],
  ['ETag "64-6", as on web2\n', 1, { etag: '"64-6"' }],
  ['ETag "old": no host has this page. Purge it at Cloudflare, and set site.purge: true', 1, { etag: '"old"' }],
  ['ETag "old": no host has this page. npx pushgate status shows', 1, { etag: '"old"' }, { purge: true }],
  ["ETag none: Cloudflare changes the page, so it cannot be compared\n", 0, {}],
])("of the public page: %s", async (text, code, headers, more = {}) => {
  hosts.configure(["web1", "web2"], [hookOf({ site: { ...pages, ...more } })]);
  for (const name of ["web1", "web2"]) write(text.includes(name) && name === "web2" ? { result: "failed" } : {}, name);
  answer({ "cf-cache-status": "HIT", ...headers });
  const said = `https://www.example.org/: 200 through Cloudflare, cf-cache-status HIT, ${text}`;
  expect(await hosts.run("where", commit.slice(0, 7))).toMatchObject(ends(code, said));
});

test("another page is compared, and one that does not answer is not seen", async () => {
  page(`web1/${site}/current/ü/index.html`, "1");
  write({});
  answer({ etag: '"64-1"' });
  const words = ["where", commit, "--host", "web1", "--page", "/a/../%C3%BC/"];
  expect(await hosts.run(...words)).toMatchObject(ends(0, "https://www.example.org/%C3%BC/: 200"));
  vi.mocked(exchange).mockRejectedValue(new Error("E"));
  expect(await hosts.run(...words)).toMatchObject(ends(1, "no answer: E"));
});

test("a commit that no run has waits behind a build, or was not delivered, which trace explains", async () => {
  vi.stubEnv("GITHUB_TOKEN", "");
  hosts.log("web1", undefined, { delivery: "d", hook: "site", status: 200, reason: "push to other" });
  const missing = await hosts.run("where", commit, "--host", "web1");
  expect(missing).toMatchObject(ends(1, /^site on web1: not delivered: .* 200 push to other\ntrace: .*GITHUB_TOKEN/s));
  const json = JSON.parse((await hosts.run("where", commit, "--host", "web1", "--json")).stdout);
  expect(json).toMatchObject({ pages: [], trace: [], notTraced: expect.stringContaining("GITHUB_TOKEN") });
  write({ result: "running", commit: "d".repeat(40) });
  hosts.write("web1/var/spool/pushgate/site/d.json", "");
  const waits =
    /^site on web1: waiting: 1 delivery; behind the build of ddddddd, begun .*\nsite on web2: not delivered: /;
  expect(await hosts.run("where", commit)).toMatchObject(ends(1, waits));
  expect(vi.mocked(exchange)).not.toHaveBeenCalled();
});
