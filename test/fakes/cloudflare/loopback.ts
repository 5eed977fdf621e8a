/**
 * A zone, a fake Cloudflare and an origin on loopback, for the data plane's tests: 127.0.1.5 is the git host, 127.0.2.5 a
 * stranger, 127.0.3.5 Cloudflare. The origin does what nginx does on the origin port.
 */
import http from "node:http";
import https from "node:https";
import type net from "node:net";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import type { TLSSocket } from "node:tls";
import { createAuthority, type Pair } from "./authority.ts";
import { type Edge, type EdgeOptions, startEdge } from "./dataplane.ts";
import { type Declared, emptyZone, type ZoneState, zoneFromDeclarations } from "./zone.ts";

export const name = "hooks.example.org";
export const here = `http.host eq "${name}"`;
export const signature = { "x-hub-signature-256": `sha256=${"a".repeat(64)}`, "user-agent": "GitHub-Hookshot/abc" };
export const [githost, stranger, edgeSource] = ["127.0.1.5", "127.0.2.5", "127.0.3.5"];
export const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));

const originCa = await createAuthority("Origin CA");
const stackCa = await createAuthority("stack CA");
const anotherCa = await createAuthority("another");
export const [origin, impostor, client] = await Promise.all([
  originCa.issue(name, [name]),
  anotherCa.issue(name, [name]),
  stackCa.issue("pushgate"),
]);
export const wrongName = await originCa.issue("www.example.org", ["www.example.org"]);
await Promise.all([originCa.close(), stackCa.close(), anotherCa.close()]);

export type Arrived = { peer: string; headers: string[]; method: string; url: string; body: string };
/** The requests that reached the origin since the last `start`. */
export const arrived: Arrived[] = [];
export const open: net.Server[] = [];

/** What nginx does on the origin port: it shows its certificate, and answers 400 without pushgate's client certificate. */
export async function startOrigin({ certificate, key }: Pair): Promise<number> {
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
export async function listening(server: net.Server): Promise<number> {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
export const port = await startOrigin(origin);

export const rules = (phase: string, ...given: object[]): Declared => ({
  type: "cloudflare:index/ruleset:Ruleset",
  name: phase,
  inputs: { kind: "zone", name: "default", phase, rules: given },
});
export const config = (ssl: string) =>
  rules("http_config_settings", { ref: "ssl", action: "set_config", expression: here, actionParameters: { ssl } });
export const toPort = (to: number) =>
  rules("http_request_origin", {
    ref: "port",
    action: "route",
    expression: here,
    actionParameters: { origin: { port: to } },
  });
export const skip = {
  ref: "skip",
  action: "skip",
  expression: `(ssl and ${here} and any(starts_with(http.request.headers["x-hub-signature-256"][*], "sha256=")) and ip.src in {127.0.1.0/24 ::1})`,
  actionParameters: { ruleset: "current", phases: ["http_ratelimit", "http_request_sbfm"], products: ["bic"] },
};
export const rest = { ref: "rest", action: "block", expression: here };
export const custom = (...given: object[]) => rules("http_request_firewall_custom", ...given);
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
export const zoneWith = (...more: Declared[]): ZoneState =>
  zoneFromDeclarations([...declared, toPort(port), ...more], emptyZone("example.org", "pro"));

/** Stops at the end of the block that holds it: `await using`. */
export async function start(zone: ZoneState, more: Partial<EdgeOptions> = {}): Promise<Edge & AsyncDisposable> {
  arrived.length = 0;
  const listen = [
    { host: "127.0.0.1", port: 0 },
    { host: "127.0.0.1", port: 0, tls: false },
    ...(hasIPv6 ? [{ host: "::1", port: 0 }] : []),
  ];
  const usual = { zone, listen, originAuthorities: [originCa.certificate], edgeSource: { v4: edgeSource } };
  const edge = await startEdge({ ...usual, ...more });
  return { ...edge, [Symbol.asyncDispose]: edge.close };
}

/** `at`: 0 TLS, 1 plain, 2 TLS over IPv6. */
export type Visit = { from?: string; headers?: http.OutgoingHttpHeaders; path?: string; at?: number; body?: string };
export type Told = { status: number; headers: http.IncomingHttpHeaders; body: string };

export function visit(edge: Edge, change: Visit = {}): Promise<Told> {
  const { from = githost, headers = signature, path = "/webhook/site", at = 0, body = "{}" } = change;
  const to = edge.addresses[at]!;
  const local = at === 2 ? {} : { localAddress: from };
  const trust = at === 1 ? {} : { servername: name, ca: edge.certificate };
  const options = {
    ...to,
    ...local,
    ...trust,
    path,
    method: "POST",
    headers: { host: name, ...headers },
    agent: false,
  };
  return new Promise((resolve, reject) => {
    const request = (at === 1 ? http : https).request(options, (response) => {
      const { statusCode: status = 0, headers: told } = response;
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve({ status, headers: told, body: Buffer.concat(chunks).toString() }));
    });
    request.on("error", reject).end(body);
  });
}

/** All values of one header. */
export const header = ({ headers }: Arrived, wanted: string): string[] =>
  headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === wanted);
