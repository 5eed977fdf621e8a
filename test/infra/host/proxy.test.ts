/** A real nginx with the rendered server, and requests of Cloudflare, its other customers and strangers. */
import { beforeEach, expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { renderProxy } from "../../../infra/host/proxy/proxy.ts";
import { example, exampleHost, foreignWorker } from "../../fixtures.ts";
import { edge, edge6, fromEdge, noNginx, OriginLab, origin6, stranger } from "./lab/origin.ts";
import type { LabReply, LabRequest, LabResult } from "./lab/proxy.ts";

const nginx = new OriginLab();
const lab = nginx.send.bind(nginx);
const rendered = renderProxy(example, exampleHost);
/** `text` without some of its words, which must be there. */
const without = (words: string | RegExp, instead = "", text = rendered) => {
  const config = text.replaceAll(words as string, instead);
  expect(config).not.toBe(text);
  return config;
};
const statusesOf = ({ replies }: LabResult) => replies.flat().map(({ status }) => status);

const github = "192.30.252.7";
const github6 = "2a0a:a440::5";

const sent = (first: string, client = github, more: readonly string[] = [], body = ""): LabRequest => {
  const from = client === "" ? [] : [`CF-Connecting-IP: ${client}`];
  const length = body === "" || /^content-length/im.test(more.join("\n")) ? [] : [`Content-Length: ${body.length}`];
  return fromEdge(`${first} HTTP/1.1`, [`Host: ${exampleHost.hostname}`, ...from, ...more, ...length], body);
};
const hook = "/webhook/site";
const post = `POST ${hook}`;
const push = (client: string, path = hook, ...more: readonly string[]) => sent(`POST ${path}`, client, more, "{}");

const byProxy = ({ status, headers, body }: LabReply) => {
  expect(headers["x-served-by"]).toBe("pushgate-proxy");
  if (status !== 204 && status !== 414) {
    expect(headers["content-type"]).toBe("application/json");
    expect(Object.keys(JSON.parse(body) as object)).toEqual(["error"]);
  }
  return status;
};

test("strangers may burst as far as the limit, and not at all where it is 0", () => {
  const burst = (proxyBurst: number) =>
    renderProxy({ ...example, limits: { ...example.limits, proxyBurst } }, exampleHost).match(/limit_req zone=.*/)![0];
  expect([0, 1].map(burst).map((line) => line.split("pushgate_strangers")[1])).toEqual([";", " burst=1 nodelay;"]);
});

beforeEach(({ skip }) => skip(noNginx !== undefined, noNginx));

const forged = [`X-Forwarded-For: ${github}`, `X-Real-IP: ${github}`, `Forwarded: for=${github}`];
const long = "x".repeat(40_000);
const { bodyBytes } = example.limits;
const smuggled = sent(post, github, ["Content-Length: 5", "Transfer-Encoding: chunked"], "0\r\n\r\n");
const rejections: [name: string, request: LabRequest, status: number, allow?: string][] = [
  ["a source outside the hook's ranges", push(stranger), 403],
  ["an IPv6 source outside the ranges", push("2001:db8:ffff::9"), 403],
  ["this git host's source on another git host's hook", push(github, "/webhook/docs"), 403],
  ["another customer's worker", push(foreignWorker), 403],
  ["the host itself as the client", push("127.0.0.1"), 403],
  ["no CF-Connecting-IP", push(""), 403],
  ["a CF-Connecting-IP that is no address", push("github"), 403],
  ["a forged X-Forwarded-For", push(stranger, "/webhook/site", ...forged), 403],
  ["a doubled CF-Connecting-IP", push(stranger, "/webhook/site", `CF-Connecting-IP: ${github}`), 403],
  ["a peer that is not Cloudflare, with this zone's certificate", { ...push(github), from: stranger }, 403],
  ["Cloudflare without a client certificate", { ...push(github), as: "none" }, 400],
  ["the certificate that all Cloudflare customers share", { ...push(github), as: "shared" }, 400],
  ["an unknown hook", push(github, "/webhook/nothing"), 404],
  ["a path below a hook", push(github, "/webhook/site/"), 404],
  ["GET on a hook", sent("GET /webhook/site"), 405, "POST"],
  ["POST on the canary", sent("POST /.pushgate", github, [], "{}"), 405, "GET"],
  ["a body declared too large", sent(post, github, [`Content-Length: ${bodyBytes + 1}`], "{}"), 413],
  ["a header too large", push(github, "/webhook/site", `X-Long: ${long}`), 400],
  ["a length and chunks, as in request smuggling", smuggled, 400],
  ["an address too long", push(github, `/webhook/${long}`), 414],
];

test("nginx rejects each of these with its own status, and none reaches the receiver", async () => {
  // At once: a dropped SYN takes half a second to become an answer.
  const { replies, seen } = await lab([rejections.map(([, request]) => request)]);
  const answered = rejections.map(([name], i) => {
    const reply = replies[0]![i]!;
    return [name, byProxy(reply), reply.headers.allow];
  });
  expect(answered).toEqual(rejections.map(([name, , status, allow]) => [name, status, allow]));
  expect(seen).toEqual([]);
});

test("a delivery passes on both address families, and the receiver sees its source", async () => {
  const wrong = forged.map((line) => line.replace(github, stranger));
  const signed = push(github, "/webhook/site?a=1", ...wrong, "X-Hub-Signature-256: sha256=abc");
  const { replies, seen, log } = await lab([
    ...[signed, push(github6), push("198.51.100.3", "/webhook/docs"), { ...push(github), from: edge6, to: origin6 }],
    ...[push(github, "/webhook/site?status=503"), sent("GET /.pushgate", stranger)],
  ]);
  expect(replies.flat().map(({ status }) => status)).toEqual([202, 202, 202, 202, 503, 204]);
  expect(byProxy(replies.pop()![0]!)).toBe(204);
  for (const { headers } of replies.flat())
    expect(headers).toMatchObject({ "x-served-by": "pushgate-receiver", "retry-after": "1" });
  expect(seen.map((line) => line.split(" ")[0])).toEqual([github, github6, "198.51.100.3", github, github]);
  const passed = [`"X-Forwarded-For","${github}"`, '"X-Hub-Signature-256","sha256=abc"', " /webhook/site?a=1 1.0"];
  for (const words of passed) expect(seen[0]).toContain(words);
  expect(seen.join()).not.toContain(stranger);
  expect(seen.join()).not.toMatch(/cf-connecting-ip|x-real-ip|"forwarded"/i);
  expect(log.join()).not.toContain("sha256");
});

// 2 MiB: above nginx's own default of 1 MiB. Pushes of that size are rare, and GitHub sends up to 25 MB.
test("a push of 2 MiB and one of the declared size pass whole, and without the declared size neither", async () => {
  const large = (bytes: number) => sent(post, github, [], `{"a":"${"a".repeat(bytes - 8)}"}`);
  const answers = async (requests: LabRequest[], config?: string) =>
    (await lab(requests, config)).replies.flat().map(({ status, body }) => (status === 202 ? Number(body) : status));
  expect(await answers([2 << 20, bodyBytes, bodyBytes + 1].map(large))).toEqual([2 << 20, bodyBytes, 413]);
  expect(await answers([large(2 << 20)], without(/client_max_body_size .*;/g))).toEqual([413]);
});

test("the log has one line of JSON for each request, even with a hostile header", async () => {
  const wild = push(github, "/webhook/site", 'X-GitHub-Delivery: a"\\{}é', "CF-Ray: 8f0-FRA");
  const { log } = await lab([wild, push(stranger)]);
  const [first, second] = log.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(first).toMatchObject({
    ...{ client: github, edge, ray: "8f0-FRA", hook: "site", in_ranges: "1", status: "202", up_status: "202" },
    ...{ limit: "", delivery: expect.stringContaining('a"\\{}') },
  });
  expect(second).toMatchObject({
    ...{ client: stranger, in_ranges: "0", status: "403", up_connect: "-", limit: "PASSED" },
  });
  // The kernel drops the SYN, and nginx waits for proxy_connect_timeout, half a second; its default is 60 s.
  expect(Number(second!.rt)).toBeGreaterThanOrEqual(0.45);
  expect(Number(second!.rt)).toBeLessThan(10);
});

test("nginx blames the receiver for what it does, by status and with Retry-After, and no sender's address", async () => {
  const loopback = /(pushgate_loopback:)\d+/g;
  const closed = await lab([push(github), push(github6), push(stranger)], without(loopback, "$19999"));
  expect(closed.replies.flat().map(byProxy)).toEqual([503, 503, 403]);
  expect(closed.replies[0]![0]!.headers["retry-after"]).toBe("10");
  const foreign = without(loopback, `$1${sourceSets(example)[0]!.port}`);
  const dropped = await lab([push("198.51.100.3", "/webhook/docs")], foreign);
  expect(dropped.replies.flat().map(byProxy)).toEqual([503]);
  const impatient = without("proxy_read_timeout 9s", "proxy_read_timeout 300ms");
  const late = await lab([push(github, "/webhook/site?slow=900"), push(github, "/webhook/site?die")], impatient);
  expect(late.replies.flat().map(byProxy)).toEqual([504, 502]);
  // A body that nginx cannot store is not the receiver's fault.
  const large = sent(post, github, [], "x".repeat(100_000));
  const stored = await lab([large, { ...large, before: `rm -r ${nginx.folder}/temp/body` }]);
  expect(statusesOf(stored)).toEqual([202, 500]);
  expect(stored.replies[1]![0]!.headers["x-served-by"]).toBe("pushgate-proxy");
  expect(JSON.parse(stored.log[1]!)).toMatchObject({ status: "500", up_status: "", in_ranges: "1" });
});

test("a slow body ends at nginx, and the receiver sees its sender only without nginx's buffer", async () => {
  const slow = sent(post, github, ["Content-Length: 100"], "{}");
  const short = without("client_body_timeout 10s", "client_body_timeout 300ms");
  const buffered = await lab([slow], short);
  expect([statusesOf(buffered), buffered.seen]).toEqual([[0], []]);
  const passed = await lab([slow], without("proxy_request_buffering on", "proxy_request_buffering off", short));
  expect(passed.seen).toHaveLength(1);
});

test("nginx rejects a stranger above the rate with 429 and no other source; a rate by address rejects pushes", async () => {
  const rated = renderProxy({ ...example, limits: { ...example.limits, proxyRate: 1, proxyBurst: 2 } }, exampleHost);
  const six = (source: string) => Array.from({ length: 6 }, () => push(source));
  const { replies } = await lab([six(stranger), push("198.51.100.8"), six(github)], rated);
  const statuses = replies.map((step) => step.map(({ status }) => status).sort());
  expect(statuses).toEqual([[403, 403, 403, 429, 429, 429], [403], Array(6).fill(202)]);
  const rejected = replies[0]!.find(({ status }) => status === 429)!;
  expect([byProxy(rejected), rejected.headers["retry-after"]]).toEqual([429, "10"]);
  const byAddress = without("limit_req_zone $pushgate_counted", "limit_req_zone $binary_remote_addr", rated);
  expect(statusesOf(await lab([six(github)], byAddress)).sort()).toEqual([202, 202, 202, 429, 429, 429]);
});

const kept = without(/http:\/\/\$pushgate_loopback:\d+/g, "http://lab")
  .replace("http {", `http { upstream lab { server 127.0.0.1:${sourceSets(example)[0]!.port}; keepalive 4; }`)
  .replace("proxy_http_version 1.0", "proxy_http_version 1.1")
  .replace("proxy_set_header Connection close", 'proxy_set_header Connection ""');
test("a stranger passes on an allowed sender's connection where it is kept", async () => {
  expect(statusesOf(await lab([push(github), push(stranger)], kept))).toEqual([202, 202]);
});

test.each<[words: string, instead: string, request: LabRequest, status: number]>([
  // A peer without a certificate passes, and a sender who writes X-Forwarded-For.
  ["ssl_verify_client on", "ssl_verify_client off", { ...push(github), as: "none" }, 202],
  ["real_ip_header CF-Connecting-IP", "real_ip_header X-Forwarded-For", push(stranger, hook, ...forged), 202],
  // An allowed sender fails: without the bind, and without the loopback of IPv6.
  ["proxy_bind $remote_addr transparent;", "", push(github), 503],
  ['"~:" "[::1]";', "", push(github6), 503],
])("without %s: %s, a request gets another answer", async (words, instead, request, status) => {
  expect(statusesOf(await lab([request], without(words, instead)))).toEqual([status]);
});
