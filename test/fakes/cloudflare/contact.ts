/** How the fake Cloudflare connects to the origin: from which address, with which certificates, and what it answers if it cannot. */
import http from "node:http";
import https from "node:https";
import { isIPv6, type Socket } from "node:net";
import type { Pair } from "./authority.ts";
import type { OriginFault } from "./pages.ts";
import type { Verdict } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";
import type { DnsRecord, ZoneState } from "./zone.ts";

export type OriginOptions = {
  readonly zone: ZoneState;
  /** PEM certificates of the authorities that "strict" trusts: the Origin CA's. */
  readonly originAuthorities: readonly string[];
  /** The addresses that the origin sees; this computer must have them. */
  readonly edgeSource: { readonly v4?: string; readonly v6?: string };
  /** The real address behind a record's content; the content itself if left out. */
  readonly resolveOrigin?: (record: DnsRecord, port: number) => { address: string; port: number };
  /** Milliseconds until 522 and 524; the real Cloudflare waits about 19 s and 100 s. */
  readonly connectTimeout?: number;
  readonly responseTimeout?: number;
};

/** Hop-by-hop headers, and those that Cloudflare writes itself. */
const notForwarded =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|expect|cf-.*|cdn-loop|x-forwarded-(for|proto)|true-client-ip)$/i;

export const pairs = (raw: readonly string[]): [string, string][] =>
  raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1] ?? ""]] : []) as [string, string][]);

export type Contact = { where: { address: string; port: number }; secure: boolean; connect: https.RequestOptions };

/** The origin's address of the visitor's family, so that a test can choose one. */
export function contact(options: OriginOptions, { origin }: Verdict, source: string): Contact {
  const { zone, edgeSource, originAuthorities, resolveOrigin } = options;
  const family = isIPv6(source) ? "AAAA" : "A";
  const record = origin.records.find(({ type }) => type === family) ?? origin.records[0]!;
  const where = resolveOrigin?.(record, origin.port) ?? { address: record.content, port: origin.port };
  const localAddress = isIPv6(where.address) ? edgeSource.v6 : edgeSource.v4;
  const connect = { host: where.address, port: where.port, ...(localAddress ? { localAddress } : {}) };
  if (!origin.secure) return { where, secure: false, connect };
  const client = clientCertificate(zone, record.name);
  const strict = origin.ssl === "strict";
  const trust = {
    servername: record.name,
    rejectUnauthorized: strict,
    ...(strict ? { ca: [...originAuthorities] } : {}),
  };
  return {
    where,
    secure: true,
    connect: { ...connect, ...trust, ...(client ? { cert: client.certificate, key: client.key } : {}) },
  };
}

function clientCertificate({ origin_pulls: pulls }: ZoneState, name: string): Pair | undefined {
  const own = pulls.hostnames.find(({ hostname, enabled }) => hostname === name && enabled);
  const found = pulls.hostname_certificates.find(({ id }) => id === own?.cert_id);
  return found && { certificate: found.certificate, key: found.private_key };
}

/** Exactly one CF-Connecting-IP, whatever the visitor sent; its X-Forwarded-For stays, with the visitor appended. */
export function forwarded(
  request: http.IncomingMessage,
  { source, ssl }: EdgeRequest,
  ray: string,
): [string, string][] {
  const scheme = ssl ? "https" : "http";
  const earlier = pairs(request.rawHeaders).flatMap(([name, value]) => (/^x-forwarded-for$/i.test(name) ? value : []));
  return [
    ...pairs(request.rawHeaders).filter(([name]) => !notForwarded.test(name)),
    ["CF-Connecting-IP", source],
    ["CF-IPCountry", "XX"],
    ["CF-Ray", ray],
    ["CF-Visitor", JSON.stringify({ scheme })],
    ["CDN-Loop", "cloudflare; loops=1"],
    ["X-Forwarded-For", [...earlier, source].join(", ")],
    ["X-Forwarded-Proto", scheme],
  ];
}

export class OriginError extends Error {
  readonly status: OriginFault;
  constructor(status: OriginFault, reason: string) {
    super(reason);
    this.status = status;
  }
}

type Sent = { to: Contact; method: string; target: string; headers: [string, string][]; body: Buffer };

/** The origin's answer; rejects with OriginError. */
export function ask(sent: Sent, options: OriginOptions): Promise<http.IncomingMessage> {
  const { to, method, target, headers, body } = sent;
  const length: [string, string][] = body.length > 0 || method === "POST" ? [["Content-Length", `${body.length}`]] : [];
  return new Promise((resolve, reject) => {
    const request = (to.secure ? https : http).request({
      ...to.connect,
      // No session is resumed: a resumed one would skip the check of the origin's certificate.
      agent: false,
      ...{ method, path: target, setHost: false, headers: [...headers, ...length].flat() },
    });
    let phase: "connect" | "handshake" | "request" = "connect";
    const fail = (status: OriginFault, reason: string) => request.destroy(new OriginError(status, reason));
    const connecting = setTimeout(
      () => fail(phase === "connect" ? 522 : 525, `no ${phase} in time`),
      options.connectTimeout ?? 19_000,
    );
    const waiting = setTimeout(() => fail(524, "no answer in time"), options.responseTimeout ?? 100_000);
    const connected = () => {
      phase = "request";
      clearTimeout(connecting);
    };
    request.once("socket", (socket: Socket) => {
      socket.once("connect", () => {
        phase = "handshake";
        if (!to.secure) connected();
      });
      socket.once("secureConnect", connected);
    });
    request.once("response", (response) => {
      clearTimeout(waiting);
      resolve(response);
    });
    request.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(connecting);
      clearTimeout(waiting);
      reject(
        error instanceof OriginError ? error : new OriginError(statusOf(error, phase), error.code ?? error.message),
      );
    });
    request.end(body);
  });
}

function statusOf({ code = "" }: NodeJS.ErrnoException, phase: "connect" | "handshake" | "request"): OriginFault {
  if (phase === "request") return 520;
  if (phase === "handshake") return /^(EPROTO|ECONNRESET|EPIPE|ERR_SSL_.*)$/.test(code) ? 525 : 526;
  if (code === "ETIMEDOUT") return 522;
  return code === "ECONNREFUSED" || code === "ECONNRESET" ? 521 : 523;
}
