/**
 * The fake Cloudflare as a server: what the origin gets, and what the visitor gets if the origin cannot be used. On
 * loopback 127.0.1.5 is the git host, 127.0.3.5 Cloudflare. test/hosts/suite/matrix.test.ts has what rule, certificate of
 * the origin and client certificate stop, with each and without.
 */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import https from "node:https";
import net, { type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { createAuthority } from "./authority.ts";
import { type Edge, startEdge } from "./dataplane.ts";
import { declaredZone, emptyZone, type ZoneState } from "./zone.ts";

const name = "hooks.example.org";
const here = `http.host eq "${name}"`;
const signature = { "x-hub-signature-256": `sha256=${"a".repeat(64)}`, "user-agent": "GitHub-Hookshot/abc" };
const [githost, edgeSource] = ["127.0.1.5", "127.0.3.5"] as const;

const originCa = await createAuthority("Origin CA");
const { certificate: cert, key } = await originCa.issue(name, [name]);

/** The requests that reached the origin, with their peer. */
const arrived: { peer: string | undefined; headers: string[]; url: string | undefined; body: string }[] = [];
const open: net.Server[] = [];
afterAll(async () => {
  for (const server of open) server.close();
  await originCa.close();
});

async function listening(server: net.Server): Promise<number> {
  open.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}
const origin = https.createServer({ cert, key }, async (request, response) => {
  const { rawHeaders: headers, url, socket } = request;
  arrived.push({ peer: socket.remoteAddress, headers, url, body: await text(request) });
  response.writeHead(202, { "x-served-by": "pushgate-receiver", server: "nginx" }).end("{}");
});
const port = await listening(origin);

function zoneWith(to = port): ZoneState {
  const strict = { ref: "ssl", action: "set_config", expression: here, actionParameters: { ssl: "strict" } };
  const route = { ref: "port", action: "route", expression: here, actionParameters: { origin: { port: to } } };
  const rules = { http_config_settings: [strict], http_request_origin: [route] };
  const record = { name, type: "A", content: "127.0.0.1", proxied: true };
  return declaredZone(emptyZone("example.org", "pro"), rules, [record]);
}

/** Stops at the end of the block that holds it: `await using`. */
async function start(zone: ZoneState): Promise<Edge & AsyncDisposable> {
  arrived.length = 0;
  const edge = await startEdge({
    ...{ zone, listen: [{ host: "127.0.0.1", port: 0 }], originAuthorities: [originCa.certificate] },
    ...{ edgeSource: { v4: edgeSource }, connectTimeout: 1_000 },
  });
  return { ...edge, [Symbol.asyncDispose]: edge.close };
}

async function visit({ addresses, certificate: ca }: Edge, headers: object, path = "/webhook/site", body = "{}") {
  const to = { ...addresses[0]!, localAddress: githost, servername: name, ca, agent: false };
  const request = https.request({ ...to, path, method: "POST", headers: { host: name, ...headers } });
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

test("a delivery arrives as it was sent, from Cloudflare, with the visitor's address once", async () => {
  await using edge = await start(zoneWith());
  const forged = { "cf-connecting-ip": "127.9.9.9", "true-client-ip": "127.9.9.9", "x-forwarded-for": "127.8.8.8" };
  const [path, body] = ["/webhook//site?x=%41", '{"a":1}'] as const;
  const told = await visit(edge, { ...signature, ...forged }, path, body);
  expect(told).toMatchObject({ status: 202, headers: { server: "cloudflare", "x-served-by": "pushgate-receiver" } });
  expect(arrived).toMatchObject([{ peer: edgeSource, url: path, body }]);
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
  expect(edge.events).toEqual([{ ray: told.headers["cf-ray"], target: path, status: 202 }]);
});

// test/hosts/edge/canary.test.ts has an origin whose packets are dropped: 522.
const talks = (behave: (socket: net.Socket) => unknown) =>
  net.createServer((socket) => void behave(socket.on("error", () => {})));
test.each<[number, string, net.Server]>([
  [521, "does not listen", talks(() => {})],
  [525, "does not speak TLS", talks((socket) => socket.end("220 hello\r\n"))],
  [525, "does not answer the handshake", talks(() => {})],
  [520, "breaks off after the request", https.createServer({ cert, key }, (_, response) => void response.destroy())],
])("an origin that cannot be used: %i, as it %s", async (status, says, server) => {
  const to = await listening(server);
  if (says === "does not listen") await new Promise((resolve) => server.close(resolve));
  await using edge = await start(zoneWith(to));
  expect((await visit(edge, signature)).status).toBe(status);
});
