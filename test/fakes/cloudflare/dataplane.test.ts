/**
 * The fake Cloudflare as a server: what the origin gets, and what the visitor gets if the origin cannot be used. On
 * loopback 127.0.1.5 is the git host, 127.0.3.5 Cloudflare. test/hosts/suite/matrix.test.ts has what rule, certificate of
 * the origin and client certificate stop, with each and without.
 */
import https from "node:https";
import net, { type AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";
import { afterAll, expect, test } from "vitest";
import { createAuthority } from "./authority.ts";
import { type Edge, startEdge } from "./dataplane.ts";
import { type Declared, emptyZone, type ZoneState, zoneFromDeclarations } from "./zone.ts";

const name = "hooks.example.org";
const here = `http.host eq "${name}"`;
const signature = { "x-hub-signature-256": `sha256=${"a".repeat(64)}`, "user-agent": "GitHub-Hookshot/abc" };
const [githost, edgeSource] = ["127.0.1.5", "127.0.3.5"] as const;

const [originCa, stackCa] = await Promise.all(["Origin CA", "stack CA"].map(createAuthority));
const [origin, client] = await Promise.all([originCa!.issue(name, [name]), stackCa!.issue("pushgate")]);

/** The requests that reached the origin, with their peer. */
const arrived: { peer: string | undefined; headers: string[]; url: string | undefined; body: string }[] = [];
const open: net.Server[] = [];
afterAll(async () => {
  for (const server of open) server.close();
  await Promise.all([originCa, stackCa].map((each) => each!.close()));
});

async function listening(server: net.Server): Promise<number> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
/** What nginx does on the origin port: it shows its certificate, and answers 400 without pushgate's client certificate. */
function startOrigin(): Promise<number> {
  const { certificate, key } = origin;
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
const port = await startOrigin();

const rules = (phase: string, ...given: object[]): Declared => ({
  ...{ type: "cloudflare:index/ruleset:Ruleset", name: phase },
  inputs: { kind: "zone", name: "default", phase, rules: given },
});
const strict = { ref: "ssl", action: "set_config", expression: here, actionParameters: { ssl: "strict" } };
function zoneWith(to = port): ZoneState {
  const route = { ref: "port", action: "route", expression: here, actionParameters: { origin: { port: to } } };
  const record = { name, type: "A", content: "127.0.0.1", proxied: true };
  const zone = zoneFromDeclarations(
    [
      { type: "cloudflare:index/dnsRecord:DnsRecord", name: "a", inputs: record },
      ...[rules("http_config_settings", strict), rules("http_request_origin", route)],
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

type Visit = { headers?: object; path?: string; body?: string };
async function visit({ addresses, certificate: ca }: Edge, change: Visit = {}) {
  const { headers = signature, path = "/webhook/site", body = "{}" } = change;
  const to = { ...addresses[0]!, localAddress: githost, servername: name, ca, agent: false };
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
