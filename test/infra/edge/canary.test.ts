/** Which hosts the canary requests, how often, and what it prints. The web answers as a test lists. */
import { setTimeout as sleep } from "node:timers/promises";
import type { DnsRecord } from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type CanaryAnswer, canary, obstacle } from "../../../infra/edge/canary.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { setMocks } from "../mocks.ts";

type Answer = { readonly status?: number; readonly headers?: object } | { readonly code?: string };
const web = vi.hoisted(() => ({ asked: [] as unknown[], answers: [] as unknown[], onRequest: () => {} }));
vi.mock("../../../service/exchange.ts", () => ({
  exchange: async (...asked: unknown[]) => {
    web.asked.push(asked);
    web.onRequest();
    const answer = web.answers.shift() as Answer;
    if ("status" in answer) return { headers: {}, ...answer };
    throw answer;
  },
}));

const warn = vi.spyOn(pulumi.log, "warn");
let info: typeof warn;
const texts = (spy: typeof warn) => spy.mock.calls.map(([text]) => text);
let isDryRun = true;
beforeEach(async () => {
  await setMocks({ newResource: () => ({ id: "", state: {} }) });
  vi.spyOn(pulumi.runtime, "isDryRun").mockImplementation(() => isDryRun);
  isDryRun = true;
  // The mocks replace it.
  info = vi.spyOn(pulumi.log, "info");
  for (const spy of [warn, info]) spy.mockReset().mockResolvedValue(undefined);
  web.asked.length = 0;
  web.onRequest = () => {};
});
afterEach(() => vi.useRealTimers());

const through = { status: 204, headers: { "x-served-by": "pushgate-proxy" } };
const hosts = [
  exampleHost,
  { ...exampleHost, name: "web2", hostname: "hooks2.example.org", state: "absent" as const },
  { ...exampleHost, name: "web3", hostname: "hooks3.example.org", state: "lost" as const },
];
/** Sends the canary, which the web answers so. Returns the hostnames that were requested. */
async function send(answers: readonly Answer[], edge: object = { canary: true }, baseUrl = ""): Promise<string[]> {
  web.answers = [...answers];
  canary({ ...example, hosts, edge: { ...example.edge, ...edge } }, baseUrl, []);
  await vi.waitFor(() => expect(web.answers).toEqual([]), { timeout: 60_000 });
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  return web.asked.map((asked) => new URL((asked as [{ url: string }])[0].url).hostname);
}

test("each present host is requested once, and nothing is printed where nginx answers", async () => {
  expect(await send([through])).toEqual([exampleHost.hostname]);
  expect(web.asked).toEqual([
    [{ url: `https://${exampleHost.hostname}/.pushgate`, headers: { accept: "*/*" } }, { seconds: 25 }],
  ]);
  expect([texts(warn), texts(info)]).toEqual([[], []]);
});

test("the canary is sent if the API is Cloudflare's own, or the configuration says so", async () => {
  const own = "https://api.cloudflare.com/client/v4";
  expect(await send([], {}, "http://127.0.0.1:4000/client/v4")).toEqual([]);
  expect(await send([], { canary: false }, own)).toEqual([]);
  expect(await send([through], {}, own)).toEqual([exampleHost.hostname]);
});

test("the request waits for the records, and the run for its answer", async () => {
  let create = (_: string): void => {};
  const id = pulumi.output(new Promise<string>((resolve) => (create = resolve)));
  web.answers = [{ status: 521 }];
  canary({ ...example, edge: { ...example.edge, canary: true } }, "", [{ id } as DnsRecord]);
  await sleep(20);
  expect(web.asked).toEqual([]);
  const ended = new Promise((resolve) => {
    web.onRequest = () => void pulumi.runtime.disconnect().then(() => resolve(texts(warn).length));
  });
  create("record");
  expect(await Promise.race([ended, sleep(3_000, "the run does not end")])).toBe(1);
});

test.each<[Answer, string]>([
  [{ code: "ENOTFOUND" }, "ENOTFOUND: DNS does not resolve the hostname here"],
  [{ code: "EAI_AGAIN" }, "EAI_AGAIN: DNS does not resolve the hostname here"],
  [{ code: "ERR_TLS_CERT_ALTNAME_INVALID" }, "ERR_TLS_CERT_ALTNAME_INVALID: the hostname shows no valid certificate"],
  [{ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }, "DEPTH_ZERO_SELF_SIGNED_CERT: the hostname shows no valid certificate"],
  [{}, "no code: there is no answer"],
  [{ status: 500, headers: { "x-served-by": "\u009b2J" } }, "500, by \\?2J: the host itself rejects"],
])("a preview sends one request, and warns of %j", async (answer, words) => {
  await send([answer]);
  await vi.waitFor(() => expect(warn).toHaveBeenCalled());
  expect(texts(warn)).toEqual([
    expect.stringMatching(`^web1: https://hooks\\.example\\.org/\\.pushgate does not get through\\. ${words}`),
  ]);
  expect(texts(info)).toEqual([]);
});

test("up repeats the request for half a minute, and reports once that it waits", async () => {
  isDryRun = false;
  vi.useFakeTimers({ toFake: ["Date"] });
  const sent = send([{ status: 521 }, { status: 521 }, through]);
  await vi.waitFor(() => expect(web.asked).toHaveLength(3), { timeout: 30_000 });
  await sent;
  expect(texts(info)).toEqual(["waiting until a request to hooks.example.org gets through to web1"]);
  expect(texts(warn)).toEqual([]);

  const late = send([{ status: 521 }, { status: 522 }]);
  await vi.waitFor(() => expect(info).toHaveBeenCalledTimes(2));
  vi.setSystemTime(Date.now() + 30_000);
  await late;
  await vi.waitFor(() => expect(warn).toHaveBeenCalledTimes(1));
  expect(texts(warn)[0]).toContain("522");
});

const host = { address: "203.0.113.10", address6: "2001:db8::10", originPort: 8443 };
const cloudflare = { "cf-ray": "8f0c2d1e3a4b5c6d-FRA", server: "cloudflare" };
const reported = (status: number, headers: CanaryAnswer["headers"] = {}) =>
  obstacle(host, { status, headers: { ...cloudflare, ...headers } });

test("obstacle reports nothing if nginx answers, or if Cloudflare challenges the canary, because it challenges no delivery", () => {
  expect(reported(204, { "x-served-by": "pushgate-proxy" })).toBeUndefined();
  expect(reported(403, { "cf-mitigated": "challenge" })).toBeUndefined();
});

test.each<[status: number, by: string, RegExp]>([
  [521, "", /^521, ray 8f0c2d1e3a4b5c6d-FRA: .* connect to 203\.0\.113\.10 and 2001:db8::10, port 8443: a firewall/],
  [403, "", /^403, ray .*: one of these .*: .*custom rule, .*access rule, .*browser check\. Look the ray up.*A signed/],
  // An answer of the origin without nginx's name comes from another program.
  [204, "", /a Worker, an Access application or a redirect rule/],
  [503, "", /knows no reason/],
  [400, "pushgate-proxy", /^400, by pushgate-proxy, ray .*: the host itself rejects the request/],
  [204, "pushgate-receiver", /^204, by pushgate-receiver, ray .*: the host itself rejects the request/],
])("obstacle names the layer and what to do for %d by Cloudflare or %j", (status, by, says) => {
  expect(reported(status, by === "" ? {} : { "x-served-by": by })).toMatch(says);
});

test("obstacle has a text without gaps for every status, and names the one address of a host without IPv6", () => {
  for (let status = 200; status < 600; status++) expect(reported(status)).not.toContain("undefined");
  const { address6: _, ...old } = host;
  expect(obstacle(old, { status: 522, headers: {} })).toContain("to 203.0.113.10, port 8443: a firewall");
});
