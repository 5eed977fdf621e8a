/**
 * The fake Cloudflare as a server: what the origin gets, and what the visitor gets if the origin cannot be used. On
 * loopback 127.0.1.5 is the git host, 127.0.2.5 a stranger, 127.0.3.5 Cloudflare.
 */
import https from "node:https";
import net, { type AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";
import { afterAll, expect, test } from "vitest";
import { createAuthority, type Pair } from "./authority.ts";
import { type Edge, startEdge } from "./dataplane.ts";
import { type Declared, emptyZone, type ZoneState, zoneFromDeclarations } from "./zone.ts";

const name = "hooks.example.org";
const here = `http.host eq "${name}"`;
const signature = { "x-hub-signature-256": `sha256=${"a".repeat(64)}`, "user-agent": "GitHub-Hookshot/abc" };
const [githost, stranger, edgeSource] = ["127.0.1.5", "127.0.2.5", "127.0.3.5"] as const;

const [originCa, stackCa, anotherCa] = await Promise.all(["Origin CA", "stack CA", "another"].map(createAuthority));
const [origin, impostor, client, wrongName] = await Promise.all([
  originCa!.issue(name, [name]),
  anotherCa!.issue(name, [name]),
  stackCa!.issue("pushgate"),
  originCa!.issue("www.example.org", ["www.example.org"]),
]);

/** The requests that reached the origin, with their peer. */
const arrived: { peer: string | undefined; headers: string[]; url: string | undefined; body: string }[] = [];
const open: net.Server[] = [];
afterAll(async () => {
  for (const server of open) server.close();
  await Promise.all([originCa, stackCa, anotherCa].map((each) => each!.close()));
});

async function listening(server: net.Server): Promise<number> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
/** What nginx does on the origin port: it shows its certificate, and answers 400 without pushgate's client certificate. */
function startOrigin({ certificate, key }: Pair): Promise<number> {
  const options = { cert: certificate, key, ca: stackCa!.certificate, requestCert: true, rejectUnauthorized: false };
  const server = https.createServer(options, async (request, response) => {
    const socket = request.socket as TLSSocket;
    if (!socket.authorized) return void response.writeHead(400).end("No required SSL certificate was sent");
    const { rawHeaders: headers, url } = request;
    arrived.push({ peer: socket.remoteAddress, headers, url, body: (await buffer(request)).toString() });
    response.writeHead(202, { "x-served-by": "pushgate-receiver", server: "nginx" }).end("{}");
  });
  return listening(server);
}
const port = await startOrigin(origin);

const rules = (phase: string, ...given: object[]): Declared => ({
  ...{ type: "cloudflare:index/ruleset:Ruleset", name: phase },
  inputs: { kind: "zone", name: "default", phase, rules: given },
});
const config = (ssl: string) =>
  rules("http_config_settings", { ref: "ssl", action: "set_config", expression: here, actionParameters: { ssl } });
const custom = (...given: object[]) => rules("http_request_firewall_custom", ...given);
const skip = {
  ...{ ref: "skip", action: "skip", actionParameters: { ruleset: "current" } },
  expression: `${here} and any(starts_with(http.request.headers["x-hub-signature-256"][*], "sha256=")) and ip.src in {127.0.1.0/24}`,
};
function zoneWith(to = port, ...more: Declared[]): ZoneState {
  const route = { ref: "port", action: "route", expression: here, actionParameters: { origin: { port: to } } };
  const record = { name, type: "A", content: "127.0.0.1", proxied: true };
  const zone = zoneFromDeclarations(
    [
      { type: "cloudflare:index/dnsRecord:DnsRecord", name: "a", inputs: record },
      custom(skip, { ref: "rest", action: "block", expression: here }),
      ...[config("strict"), rules("http_request_origin", route), ...more],
    ],
    emptyZone("example.org", "pro"),
  );
  zone.origin_pulls = {
    hostname_certificates: [{ id: "client", certificate: client!.certificate, private_key: client!.key }],
    hostnames: [{ hostname: name, cert_id: "client", enabled: true }],
  };
  return zone;
}

/** Stops at the end of the block that holds it: `await using`. */
async function start(zone: ZoneState): Promise<Edge & AsyncDisposable> {
  arrived.length = 0;
  const edge = await startEdge({
    ...{ zone, listen: [{ host: "127.0.0.1", port: 0 }], originAuthorities: [originCa!.certificate] },
    ...{ edgeSource: { v4: edgeSource }, connectTimeout: 1_000 },
  });
  return { ...edge, [Symbol.asyncDispose]: edge.close };
}

type Visit = { from?: string; headers?: object; path?: string; body?: string };
async function visit({ addresses, certificate: ca }: Edge, change: Visit = {}) {
  const { from: localAddress = githost, headers = signature, path = "/webhook/site", body = "{}" } = change;
  const to = { ...addresses[0]!, localAddress, servername: name, ca, agent: false };
  const request = https.request({ ...to, path, method: "POST", headers: { host: name, ...headers } });
  request.end(body);
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    request.once("response", resolve).once("error", reject);
  });
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

test("a delivery arrives as it was sent, from Cloudflare, with the visitor's address once", async () => {
  await using edge = await start(zoneWith());
  const forged = { "cf-connecting-ip": "127.9.9.9", "true-client-ip": "127.9.9.9", "x-forwarded-for": "127.8.8.8" };
  const sent = { headers: { ...signature, ...forged }, path: "/webhook//site?x=%41", body: '{"a":1}' };
  const told = await visit(edge, sent);
  expect(told).toMatchObject({ status: 202, headers: { server: "cloudflare", "x-served-by": "pushgate-receiver" } });
  expect(arrived).toMatchObject([{ peer: edgeSource, url: sent.path, body: sent.body }]);
  const { headers } = arrived[0]!;
  for (const [key, values] of Object.entries({
    "cf-connecting-ip": [githost],
    "true-client-ip": [],
    "x-forwarded-for": [`127.8.8.8, ${githost}`],
    host: [name],
    "x-hub-signature-256": [signature["x-hub-signature-256"]],
    "cf-ray": [told.headers["cf-ray"]],
  }))
    expect(headers.filter((_, at) => at % 2 === 1 && headers[at - 1]!.toLowerCase() === key)).toEqual(values);
  expect(edge.events).toEqual([{ ray: told.headers["cf-ray"], target: sent.path, status: 202 }]);
});

test("a rule rejects a stranger, and the request arrives without the rule", async () => {
  await using edge = await start(zoneWith());
  const told = await visit(edge, { from: stranger });
  expect(told.headers["cf-ray"]).toMatch(/^[0-9a-f]{16}-/);
  expect([arrived, edge.events[0]?.decidedBy?.source]).toEqual([[], "firewallCustom"]);
  await using opened = await start(zoneWith(port, custom(skip)));
  expect((await visit(opened, { from: stranger })).status).toBe(202);
});

test.each([
  ["signed by another authority", impostor!],
  ["for another name", wrongName!],
])("an origin certificate %s: 526, and accepted without the configuration rule", async (_, pair) => {
  const to = await startOrigin(pair);
  await using edge = await start(zoneWith(to));
  expect([(await visit(edge)).status, arrived]).toEqual([526, []]);
  await using opened = await start(zoneWith(to, config("full")));
  expect((await visit(opened)).status).toBe(202);
});

test("without the client certificate of the hostname, the origin rejects the request", async () => {
  const zone = zoneWith();
  zone.origin_pulls.hostnames[0]!.enabled = false;
  await using edge = await start(zone);
  expect(await visit(edge)).toMatchObject({ status: 400, body: "No required SSL certificate was sent" });
});

// test/hosts/edge/canary.test.ts has an origin whose packets are dropped: 522.
const talks = (behave: (socket: net.Socket) => unknown) =>
  net.createServer((socket) => void behave(socket.on("error", () => {})));
test.each<[number, string, net.Server]>([
  [521, "does not listen", talks(() => {})],
  [525, "does not speak TLS", talks((socket) => socket.end("220 hello\r\n"))],
  [525, "does not answer the handshake", talks(() => {})],
  [
    520,
    "breaks off after the request",
    https.createServer({ cert: origin!.certificate, key: origin!.key }, (_, response) => void response.destroy()),
  ],
])("an origin that cannot be used: %i, as it %s", async (status, says, server) => {
  const to = await listening(server);
  if (says === "does not listen") await new Promise((resolve) => server.close(resolve));
  await using edge = await start(zoneWith(to));
  expect((await visit(edge)).status).toBe(status);
});
