/** The edge as a server: what the origin is sent, what the visitor is told when it cannot be reached, and each protection taken away. */
import { spawn } from "node:child_process";
import http from "node:http";
import https from "node:https";
import net, { type AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAuthority } from "./authority.ts";
import type { OriginOptions } from "./contact.ts";
import { type Edge, startEdge } from "./dataplane.ts";
import type { EdgeRequest } from "./request.ts";
import { type Declared, emptyZone, type ZoneState, zoneFromDeclarations } from "./zone.ts";

const name = "hooks.example.org";
const here = `http.host eq "${name}"`;
const signature = { "x-hub-signature-256": `sha256=${"a".repeat(64)}`, "user-agent": "GitHub-Hookshot/abc" };
/** Loopback plays the git host, a stranger and the edge; the whole range is this machine's. */
const [githost, stranger, edgeSource] = ["127.0.1.5", "127.0.2.5", "127.0.3.5"];

const originCa = await createAuthority("Origin CA");
const stackCa = await createAuthority("stack CA");
const anotherCa = await createAuthority("another");
const [origin, impostor, client, shared] = await Promise.all([
  originCa.issue(name, [name]),
  anotherCa.issue(name, [name]),
  stackCa.issue("pushgate"),
  anotherCa.issue("shared by all zones"),
]);
const wrongName = await originCa.issue("www.example.org", ["www.example.org"]);
await Promise.all([originCa.close(), stackCa.close(), anotherCa.close()]);

type Arrived = { peer: string; headers: string[]; method: string; url: string; body: string };
let arrived: Arrived[] = [];
const open: { close: () => unknown }[] = [];
afterAll(() => {
  for (const server of open) server.close();
});

/** What nginx does on the origin port: its certificate, and 400 to whoever has no client certificate of ours. */
async function startOrigin({ certificate, key }: { certificate: string; key: string }): Promise<number> {
  const options = { cert: certificate, key, ca: stackCa.certificate, requestCert: true, rejectUnauthorized: false };
  const server = https.createServer(options, async (request, response) => {
    const socket = request.socket as TLSSocket;
    if (!socket.authorized) return void response.writeHead(400).end("No required SSL certificate was sent");
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const { rawHeaders: headers, method = "", url = "" } = request;
    arrived.push({ peer: socket.remoteAddress ?? "", headers, method, url, body });
    response.writeHead(202, { "x-served-by": "pushgate-receiver", server: "nginx" }).end("{}");
  });
  return listening(server);
}
async function listening(server: net.Server): Promise<number> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
const port = await startOrigin(origin);

const rules = (phase: string, ...given: object[]): Declared => ({
  type: "cloudflare:index/ruleset:Ruleset",
  name: phase,
  inputs: { kind: "zone", name: "default", phase, rules: given },
});
const config = (ssl: string) =>
  rules("http_config_settings", { ref: "ssl", action: "set_config", expression: here, actionParameters: { ssl } });
const toPort = (to: number) =>
  rules("http_request_origin", {
    ref: "port",
    action: "route",
    expression: here,
    actionParameters: { origin: { port: to } },
  });
const skip = {
  ref: "skip",
  action: "skip",
  expression: `(ssl and ${here} and any(starts_with(http.request.headers["x-hub-signature-256"][*], "sha256=")) and ip.src in {127.0.1.0/24 ::1})`,
  actionParameters: { ruleset: "current", phases: ["http_ratelimit", "http_request_sbfm"], products: ["bic"] },
};
const rest = { ref: "rest", action: "block", expression: here };
const custom = (...given: object[]) => rules("http_request_firewall_custom", ...given);
const hostname = { hostname: name, certId: "client", enabled: true };
const declared: Declared[] = [
  {
    type: "cloudflare:index/dnsRecord:DnsRecord",
    name: "a",
    inputs: { name, type: "A", content: "127.0.0.1", proxied: true },
  },
  custom(skip, rest),
  config("strict"),
  {
    type: "cloudflare:index/authenticatedOriginPullsHostnameCertificate:AuthenticatedOriginPullsHostnameCertificate",
    name: "client",
    id: "client",
    inputs: { certificate: client.certificate, privateKey: client.key },
  },
  {
    type: "cloudflare:index/authenticatedOriginPulls:AuthenticatedOriginPulls",
    name: "on",
    inputs: { configs: [hostname] },
  },
];
const zoneWith = (...more: Declared[]): ZoneState =>
  zoneFromDeclarations([...declared, toPort(port), ...more], emptyZone("example.org", "pro"));

let edge: Edge | undefined;
async function start(
  zone: ZoneState,
  more: Partial<OriginOptions> & { detect?: () => Partial<EdgeRequest> } = {},
): Promise<Edge> {
  await edge?.close();
  const listen = [
    { host: "127.0.0.1", port: 0 },
    { host: "::1", port: 0 },
    { host: "127.0.0.1", port: 0, tls: false },
  ];
  edge = await startEdge({
    zone,
    listen,
    originAuthorities: [originCa.certificate],
    edgeSource: { v4: edgeSource },
    sharedClient: shared,
    ...more,
  });
  return edge;
}
beforeEach(() => {
  arrived = [];
});
afterEach(async () => {
  await edge?.close();
  edge = undefined;
});

type Visit = { from?: string; headers?: http.OutgoingHttpHeaders; path?: string; at?: number; body?: string };
type Told = { status: number; headers: http.IncomingHttpHeaders; body: string };
function visit({
  from = githost,
  headers = signature,
  path = "/webhook/site",
  at = 0,
  body = "{}",
}: Visit = {}): Promise<Told> {
  const { host, port: to } = edge!.addresses[at]!;
  const local = host === "::1" ? {} : { localAddress: from };
  const options = { host, port: to, ...local, path, method: "POST", headers: { host: name, ...headers }, agent: false };
  return new Promise((resolve, reject) => {
    const request = (at === 2 ? http : https).request(
      { ...options, servername: name, ca: edge!.certificate },
      (response) => {
        const chunks: Buffer[] = [];
        response
          .on("data", (chunk: Buffer) => chunks.push(chunk))
          .on("end", () => {
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              body: Buffer.concat(chunks).toString(),
            });
          });
      },
    );
    request.on("error", reject).end(body);
  });
}
const header = ({ headers }: Arrived, wanted: string) =>
  headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === wanted);

test("a delivery arrives as it was sent, from the edge, with the visitor's address once", async () => {
  await start(zoneWith());
  const forged = { "cf-connecting-ip": "127.9.9.9", "true-client-ip": "127.9.9.9", "x-forwarded-for": "127.8.8.8" };
  const told = await visit({ headers: { ...signature, ...forged }, path: "/webhook//site?x=%41", body: '{"a":1}' });
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
  expect(edge!.events).toMatchObject([
    {
      action: "forward",
      status: 202,
      source: githost,
      origin: { port, status: 202 },
      events: [{ ref: "skip", action: "skip" }],
    },
  ]);
});

test("over IPv6 the visitor's address is its IPv6 address", async () => {
  await start(zoneWith());
  expect((await visit({ at: 1 })).status).toBe(202);
  expect(header(arrived[0]!, "cf-connecting-ip")).toEqual(["::1"]);
});

describe("refused at the edge, and the origin hears nothing", () => {
  test.each<[string, Visit, string]>([
    ["a stranger", { from: stranger }, "firewallCustom"],
    ["no signature header", { headers: { "user-agent": "GitHub-Hookshot/abc" } }, "firewallCustom"],
    ["plain HTTP", { at: 2 }, "firewallCustom"],
    ["a name the zone has not", { headers: { ...signature, host: "nothing.example.org" } }, "dns"],
  ])("%s", async (_, change, source) => {
    await start(zoneWith());
    const told = await visit(change);
    expect(told.headers["cf-ray"]).toMatch(/^[0-9a-f]{16}-/);
    expect([arrived, edge!.events[0]?.decidedBy?.source]).toEqual([[], source]);
    // The rule taken away, the same request arrives.
    if (source === "firewallCustom") {
      await start(zoneWith(custom(skip)));
      // Plain HTTP arrives too, as plain HTTP, and breaks on a port that speaks TLS.
      expect((await visit(change)).status).toBe(change.at === 2 ? 520 : 202);
    }
  });
  test("the incident: 403, a challenge, and an origin that heard nothing", async () => {
    const bots: Declared = {
      type: "cloudflare:index/botManagement:BotManagement",
      name: "bots",
      inputs: { sbfmDefinitelyAutomated: "managed_challenge" },
    };
    await start(zoneWith(bots, custom()));
    const told = await visit();
    expect(told).toMatchObject({ status: 403, headers: { "cf-mitigated": "challenge" } });
    expect(told.body).toContain("Just a moment...");
    expect(arrived).toEqual([]);
    await start(zoneWith(bots));
    expect((await visit()).status).toBe(202);
  });
  test("a rate rule counts each source by itself", async () => {
    const ratelimit = {
      characteristics: ["cf.colo.id", "ip.src"],
      period: 10,
      requestsPerPeriod: 2,
      mitigationTimeout: 10,
    };
    const rate = rules("http_ratelimit", { ref: "rate", action: "block", expression: here, ratelimit });
    await start(zoneWith(rate, custom()));
    const statuses = [await visit(), await visit(), await visit(), await visit({ from: stranger })].map(
      ({ status }) => status,
    );
    expect(statuses).toEqual([202, 202, 429, 202]);
  });
});

describe("the origin's certificate", () => {
  test.each([
    ["signed by somebody else", impostor],
    ["for another name", wrongName],
  ])("%s: 526, and accepted without the configuration rule", async (_, pair) => {
    const to = await startOrigin(pair);
    await start(zoneWith(toPort(to)));
    expect(await visit()).toMatchObject({ status: 526 });
    expect(arrived).toEqual([]);
    await start(zoneWith(toPort(to), config("full")));
    expect((await visit()).status).toBe(202);
  });
});

describe("the edge's client certificate", () => {
  const pulls = (zone: ZoneState, change: Partial<ZoneState["origin_pulls"]>) =>
    Object.assign(zone.origin_pulls, change);
  test("none: the origin refuses", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [] });
    await start(zone);
    expect(await visit()).toMatchObject({ status: 400, body: "No required SSL certificate was sent" });
  });
  test("the shared one, which any zone has: the origin refuses", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [] });
    zone.settings.tls_client_auth = "on";
    await start(zone);
    expect((await visit()).status).toBe(400);
  });
  test("the zone's own serves a hostname that has none, but not one that is switched off", async () => {
    const zone = zoneWith();
    pulls(zone, { hostnames: [], enabled: true, certificates: zone.origin_pulls.hostname_certificates });
    await start(zone);
    expect((await visit()).status).toBe(202);
    pulls(zone, { hostnames: [{ hostname: name, cert_id: "client", enabled: false }] });
    expect((await visit()).status).toBe(400);
  });
});

describe("an origin that cannot be reached", () => {
  test("nobody listens: 521", async () => {
    const server = net.createServer();
    const to = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    await start(zoneWith(toPort(to)));
    expect((await visit()).status).toBe(521);
    expect(edge!.events[0]?.origin).toMatchObject({ port: to, error: "ECONNREFUSED" });
  });
  test("packets are dropped: 522", async () => {
    // A listener that never accepts and whose queue is full: the kernel drops what comes next, as a firewall would.
    const script = `const s = require("net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      require("fs").writeSync(1, String(s.address().port)); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); });`;
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const full = Number(await new Promise((resolve) => child.stdout.once("data", resolve)));
    const held = Array.from({ length: 4 }, () => net.connect(full, "127.0.0.1").on("error", () => {}));
    await start(zoneWith(toPort(full)), { connectTimeout: 300 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await visit()).status).toBe(522);
    for (const socket of held) socket.destroy();
    child.kill("SIGKILL");
  });
  test.each<[number, string, (socket: net.Socket) => void]>([
    [525, "does not speak TLS", (socket) => socket.end("220 hello\r\n")],
    [525, "says nothing", () => {}],
  ])("%i: it %s", async (status, _, behave) => {
    const to = await listening(net.createServer((socket) => behave(socket.on("error", () => {}))));
    await start(zoneWith(toPort(to)), { connectTimeout: 300 });
    expect((await visit()).status).toBe(status);
  });
  test.each<[number, (response: http.ServerResponse) => void]>([
    [520, (response) => response.destroy()],
    [524, () => {}],
  ])("%i: after the request", async (status, behave) => {
    const server = https.createServer({ cert: origin.certificate, key: origin.key }, (_, response) => behave(response));
    const to = await listening(server);
    await start(zoneWith(toPort(to)), { responseTimeout: 300 });
    expect((await visit()).status).toBe(status);
    server.closeAllConnections();
  });
});

test("a kept connection that the origin has closed costs no delivery", async () => {
  await start(zoneWith(), { keepAlive: true });
  const ports = new Set<number>();
  const server = open[0] as https.Server;
  server.on("request", (request) => ports.add(request.socket.remotePort ?? 0));
  expect((await visit()).status).toBe(202);
  expect((await visit()).status).toBe(202);
  expect(ports.size).toBe(1);
  server.closeIdleConnections();
  expect((await visit()).status).toBe(202);
  expect(ports.size).toBe(2);
});
