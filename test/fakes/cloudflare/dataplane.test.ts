/** The fake Cloudflare as a server: what the origin gets, what the visitor gets if the origin is unreachable, and each protection removed. */
import { spawn } from "node:child_process";
import type http from "node:http";
import https from "node:https";
import net from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import {
  type Arrived,
  arrived,
  config,
  custom,
  edgeSource,
  githost,
  hasIPv6,
  header,
  here,
  impostor,
  listening,
  name,
  open,
  origin,
  port,
  rules,
  signature,
  skip,
  start,
  startOrigin,
  stranger,
  toPort,
  type Visit,
  visit,
  wrongName,
  zoneWith,
} from "./loopback.ts";
import type { Declared, ZoneState } from "./zone.ts";

afterAll(() => {
  for (const server of open) server.close();
});

test("a delivery arrives as it was sent, from Cloudflare, with the visitor's address once", async () => {
  await using edge = await start(zoneWith());
  const forged = { "cf-connecting-ip": "127.9.9.9", "true-client-ip": "127.9.9.9", "x-forwarded-for": "127.8.8.8" };
  const told = await visit(edge, {
    headers: { ...signature, ...forged },
    path: "/webhook//site?x=%41",
    body: '{"a":1}',
  });
  expect(told).toMatchObject({
    status: 202,
    body: "{}",
    headers: { server: "cloudflare", "x-served-by": "pushgate-receiver" },
  });
  const [request] = arrived as [Arrived];
  expect(request).toMatchObject({ peer: edgeSource, method: "POST", url: "/webhook//site?x=%41", body: '{"a":1}' });
  expect(header(request, "cf-connecting-ip")).toEqual([githost]);
  expect(header(request, "true-client-ip")).toEqual([]);
  expect(header(request, "x-forwarded-for")).toEqual([`127.8.8.8, ${githost}`]);
  expect(header(request, "host")).toEqual([name]);
  expect(header(request, "x-hub-signature-256")).toEqual([signature["x-hub-signature-256"]]);
  expect(header(request, "cf-ray")).toEqual([told.headers["cf-ray"]]);
  expect(edge.events).toMatchObject([
    {
      action: "forward",
      status: 202,
      source: githost,
      origin: { port, status: 202 },
      events: [{ ref: "skip", action: "skip" }],
    },
  ]);
});

test("over IPv6 the visitor's address is its IPv6 address", async (context) => {
  context.skip(!hasIPv6, "this computer has no IPv6 on its loopback");
  await using edge = await start(zoneWith());
  expect((await visit(edge, { at: 2 })).status).toBe(202);
  expect(header(arrived[0]!, "cf-connecting-ip")).toEqual(["::1"]);
});

describe("rejected by Cloudflare, and the origin gets nothing", () => {
  test.each<[string, Visit, string]>([
    ["a stranger", { from: stranger }, "firewallCustom"],
    ["no signature header", { headers: { "user-agent": "GitHub-Hookshot/abc" } }, "firewallCustom"],
    ["plain HTTP", { at: 1 }, "firewallCustom"],
    ["a name the zone has not", { headers: { ...signature, host: "nothing.example.org" } }, "dns"],
  ])("%s", async (_, change, source) => {
    await using edge = await start(zoneWith());
    const told = await visit(edge, change);
    expect(told.headers["cf-ray"]).toMatch(/^[0-9a-f]{16}-/);
    expect([arrived, edge.events[0]?.decidedBy?.source]).toEqual([[], source]);
    // Without the rule, the same request arrives.
    if (source === "firewallCustom") {
      await using edge = await start(zoneWith(custom(skip)));
      // Plain HTTP arrives too, as plain HTTP, and breaks on a port that speaks TLS.
      expect((await visit(edge, change)).status).toBe(change.at === 1 ? 520 : 202);
    }
  });
  test("the incident: 403, a challenge, and an origin that got nothing", async () => {
    const bots: Declared = {
      type: "cloudflare:index/botManagement:BotManagement",
      name: "bots",
      inputs: { sbfmDefinitelyAutomated: "managed_challenge" },
    };
    await using edge = await start(zoneWith(bots, custom()));
    const told = await visit(edge);
    expect(told).toMatchObject({ status: 403, headers: { "cf-mitigated": "challenge" } });
    expect(told.body).toContain("Just a moment...");
    expect(arrived).toEqual([]);
    await using opened = await start(zoneWith(bots));
    expect((await visit(opened)).status).toBe(202);
  });
  test("a rate rule counts each source by itself", async () => {
    const ratelimit = {
      characteristics: ["cf.colo.id", "ip.src"],
      period: 10,
      requestsPerPeriod: 2,
      mitigationTimeout: 10,
    };
    const rate = rules("http_ratelimit", { ref: "rate", action: "block", expression: here, ratelimit });
    await using edge = await start(zoneWith(rate, custom()));
    const statuses = [
      await visit(edge),
      await visit(edge),
      await visit(edge),
      await visit(edge, { from: stranger }),
    ].map(({ status }) => status);
    expect(statuses).toEqual([202, 202, 429, 202]);
  });
});

describe("the origin's certificate", () => {
  test.each([
    ["signed by another authority", impostor],
    ["for another name", wrongName],
  ])("%s: 526, and accepted without the configuration rule", async (_, pair) => {
    const to = await startOrigin(pair);
    await using edge = await start(zoneWith(toPort(to)));
    expect(await visit(edge)).toMatchObject({ status: 526 });
    expect(arrived).toEqual([]);
    await using opened = await start(zoneWith(toPort(to), config("full")));
    expect((await visit(opened)).status).toBe(202);
  });
});

describe("the client certificate that Cloudflare presents", () => {
  const pulls = (zone: ZoneState, change: Partial<ZoneState["origin_pulls"]>) =>
    Object.assign(zone.origin_pulls, change);
  test("without one, the origin rejects the request", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [] });
    await using edge = await start(zone);
    expect(await visit(edge)).toMatchObject({ status: 400, body: "No required SSL certificate was sent" });
  });
  test("with the one that all zones share, the origin rejects the request", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [] });
    zone.settings.tls_client_auth = "on";
    await using edge = await start(zone);
    expect((await visit(edge)).status).toBe(400);
  });
  test("the zone's own serves a hostname that has none, but not one that is switched off", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [], enabled: true, certificates: zone.origin_pulls.hostname_certificates });
    await using edge = await start(zone);
    expect((await visit(edge)).status).toBe(202);
    pulls(zone, { hostnames: [{ hostname: name, cert_id: "client", enabled: false }] });
    expect((await visit(edge)).status).toBe(400);
  });
});

describe("an origin that cannot be reached", () => {
  test("no program listens: 521", async () => {
    const server = net.createServer();
    const to = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    await using edge = await start(zoneWith(toPort(to)));
    expect((await visit(edge)).status).toBe(521);
    expect(edge.events[0]?.origin).toMatchObject({ port: to, error: "ECONNREFUSED" });
  });
  test("packets are dropped: 522", async () => {
    // A listener that never accepts and whose queue is full: the kernel drops what comes next, as a firewall would.
    const script = `const s = require("net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      require("fs").writeSync(1, String(s.address().port)); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const full = Number(await new Promise((resolve) => child.stdout.once("data", resolve)));
    const held = Array.from({ length: 4 }, () => net.connect(full, "127.0.0.1").on("error", () => {}));
    await using edge = await start(zoneWith(toPort(full)), { connectTimeout: 300 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await visit(edge)).status).toBe(522);
    for (const socket of held) socket.destroy();
    child.kill("SIGKILL");
  });
  test.each<[number, string, (socket: net.Socket) => void]>([
    [525, "does not speak TLS", (socket) => socket.end("220 hello\r\n")],
    [525, "does not answer", () => {}],
  ])("%i: it %s", async (status, _, behave) => {
    const to = await listening(net.createServer((socket) => behave(socket.on("error", () => {}))));
    await using edge = await start(zoneWith(toPort(to)), { connectTimeout: 2_000 });
    expect((await visit(edge)).status).toBe(status);
  });
  test.each<[number, (response: http.ServerResponse) => void]>([
    [520, (response) => response.destroy()],
    [524, () => {}],
  ])("%i: after the request", async (status, behave) => {
    const server = https.createServer({ cert: origin.certificate, key: origin.key }, (_, response) => behave(response));
    const to = await listening(server);
    await using edge = await start(zoneWith(toPort(to)), { responseTimeout: 300 });
    expect((await visit(edge)).status).toBe(status);
    server.closeAllConnections();
  });
});

test("a kept connection that the origin has closed costs no delivery", async () => {
  await using edge = await start(zoneWith(), { keepAlive: true });
  const ports = new Set<number>();
  const server = open[0] as https.Server;
  server.on("request", (request) => ports.add(request.socket.remotePort ?? 0));
  expect((await visit(edge)).status).toBe(202);
  expect((await visit(edge)).status).toBe(202);
  expect(ports.size).toBe(1);
  server.closeIdleConnections();
  expect((await visit(edge)).status).toBe(202);
  expect(ports.size).toBe(2);
});
