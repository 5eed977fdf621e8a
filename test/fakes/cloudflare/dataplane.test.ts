/** The fake Cloudflare as a server: what the origin gets, and what the visitor gets if the origin cannot be used. */
import { spawn } from "node:child_process";
import https from "node:https";
import net from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import * as lo from "./loopback.ts";
import {
  type Arrived,
  arrived,
  githost,
  header,
  name,
  signature,
  start,
  stranger,
  visit,
  zoneWith,
} from "./loopback.ts";

afterAll(() => {
  for (const server of lo.open) server.close();
});

test("a delivery arrives as it was sent, from Cloudflare, with the visitor's address once", async () => {
  await using edge = await start(zoneWith());
  const forged = { "cf-connecting-ip": "127.9.9.9", "true-client-ip": "127.9.9.9", "x-forwarded-for": "127.8.8.8" };
  const sent = { headers: { ...signature, ...forged }, path: "/webhook//site?x=%41", body: '{"a":1}' };
  const told = await visit(edge, sent);
  expect(told).toMatchObject({ status: 202, headers: { server: "cloudflare", "x-served-by": "pushgate-receiver" } });
  const [request] = arrived as [Arrived];
  expect(request).toMatchObject({ peer: lo.edgeSource, method: "POST", url: sent.path, body: sent.body });
  for (const [key, values] of Object.entries({
    "cf-connecting-ip": [githost],
    "true-client-ip": [],
    "x-forwarded-for": [`127.8.8.8, ${githost}`],
    host: [name],
    "x-hub-signature-256": [signature["x-hub-signature-256"]],
    "cf-ray": [told.headers["cf-ray"]],
  }))
    expect(header(request, key), key).toEqual(values);
  expect(edge.events).toMatchObject([
    {
      action: "forward",
      status: 202,
      source: githost,
      origin: { port: lo.port, status: 202 },
      events: [{ ref: "skip" }],
    },
  ]);
});

test("over IPv6 the visitor's address is its IPv6 address", async (context) => {
  context.skip(!lo.hasIPv6, "this computer has no IPv6 on its loopback");
  await using edge = await start(zoneWith());
  expect((await visit(edge, { at: 2 })).status).toBe(202);
  expect(header(arrived[0]!, "cf-connecting-ip")).toEqual(["::1"]);
});

test.each<[string, lo.Visit, number]>([
  ["a stranger", { from: stranger }, 202],
  ["no signature header", { headers: { "user-agent": "GitHub-Hookshot/abc" } }, 202],
  // Plain HTTP then breaks on a port that speaks TLS.
  ["plain HTTP", { at: 1 }, 520],
])("a rule rejects %s, and the request arrives without the rule", async (_, change, without) => {
  await using edge = await start(zoneWith());
  const told = await visit(edge, change);
  expect(told.headers["cf-ray"]).toMatch(/^[0-9a-f]{16}-/);
  expect([arrived, edge.events[0]?.decidedBy?.source]).toEqual([[], "firewallCustom"]);
  await using opened = await start(zoneWith(lo.custom(lo.skip)));
  expect((await visit(opened, change)).status).toBe(without);
});

test("a rate rule counts each source by itself", async () => {
  const count = { characteristics: ["cf.colo.id", "ip.src"], period: 10, requestsPerPeriod: 2, mitigationTimeout: 10 };
  const rate = lo.rules("http_ratelimit", { ref: "rate", action: "block", expression: lo.here, ratelimit: count });
  await using edge = await start(zoneWith(rate, lo.custom()));
  const statuses: number[] = [];
  for (const from of [githost, githost, githost, stranger]) statuses.push((await visit(edge, { from })).status);
  expect(statuses).toEqual([202, 202, 429, 202]);
});

test.each([
  ["signed by another authority", lo.impostor],
  ["for another name", lo.wrongName],
])("an origin certificate %s: 526, and accepted without the configuration rule", async (_, pair) => {
  const to = await lo.startOrigin(pair);
  await using edge = await start(zoneWith(lo.toPort(to)));
  expect([(await visit(edge)).status, arrived]).toEqual([526, []]);
  await using opened = await start(zoneWith(lo.toPort(to), lo.config("full")));
  expect((await visit(opened)).status).toBe(202);
});

test("without the client certificate of the hostname, the origin rejects the request", async () => {
  const zone = zoneWith();
  zone.origin_pulls.hostnames[0]!.enabled = false;
  await using edge = await start(zone);
  expect(await visit(edge)).toMatchObject({ status: 400, body: "No required SSL certificate was sent" });
});

describe("an origin that cannot be reached", () => {
  test("packets are dropped: 522", async () => {
    // A listener that never accepts and whose queue is full: the kernel drops what comes next, as a firewall would.
    const script = `const s = require("net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      require("fs").writeSync(1, String(s.address().port)); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const full = Number(await new Promise((resolve) => child.stdout.once("data", resolve)));
    const held = Array.from({ length: 4 }, () => net.connect(full, "127.0.0.1").on("error", () => {}));
    await using edge = await start(zoneWith(lo.toPort(full)), { connectTimeout: 300 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await visit(edge)).status).toBe(522);
    for (const socket of held) socket.destroy();
    child.kill("SIGKILL");
  });
  const talks = (behave: (socket: net.Socket) => unknown) => () =>
    net.createServer((socket) => void behave(socket.on("error", () => {})));
  const answers = (listener: Parameters<typeof https.createServer>[1]) => () =>
    https.createServer({ cert: lo.origin.certificate, key: lo.origin.key }, listener);
  test.each<[number, string, () => net.Server, closed?: true]>([
    [521, "does not listen", talks(() => {}), true],
    [525, "does not speak TLS", talks((socket) => socket.end("220 hello\r\n"))],
    [525, "does not answer the handshake", talks(() => {})],
    [520, "breaks off after the request", answers((_, response) => void response.destroy())],
    [524, "does not answer the request", answers(() => {})],
  ])("%i: it %s", async (status, _, make, closed) => {
    const server = make();
    const to = await lo.listening(server);
    if (closed) await new Promise((resolve) => server.close(resolve));
    await using edge = await start(zoneWith(lo.toPort(to)), { connectTimeout: 1_000, responseTimeout: 1_300 });
    expect((await visit(edge)).status).toBe(status);
    if (server instanceof https.Server) server.closeAllConnections();
  });
});
