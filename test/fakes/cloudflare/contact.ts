/** How the fake Cloudflare connects to the origin: from which address, with which certificates, and what it answers if it cannot. */
import type http from "node:http";
import https from "node:https";
import { isIPv6, type Socket } from "node:net";
import { StatusError } from "../status-error.ts";
import type { Pair } from "./authority.ts";
import type { OriginFault } from "./pages.ts";
import type { Verdict } from "./plane.ts";
import type { ZoneState } from "./zone.ts";

export type OriginOptions = {
  readonly zone: ZoneState;
  /** PEM certificates of the authorities that "strict" trusts: the Origin CA's. */
  readonly originAuthorities: readonly string[];
  /** The addresses that the origin sees; this computer must have them. */
  readonly edgeSource: { readonly v4: string; readonly v6?: string };
  /** Milliseconds until 522; the real Cloudflare waits about 19 s. */
  readonly connectTimeout: number;
};

/** Hop-by-hop headers, and those that Cloudflare writes itself. */
const notForwarded =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|expect|cf-.*|cdn-loop|x-forwarded-(for|proto)|true-client-ip)$/i;

export const pairs = (raw: readonly string[]): [string, string][] =>
  raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1] ?? ""]] : []) as [string, string][]);

/** How to connect to the origin's address of the visitor's family, so that a test can choose one. */
export function contact(options: OriginOptions, { origin }: Verdict, source: string): https.RequestOptions {
  const { zone, edgeSource, originAuthorities } = options;
  const family = isIPv6(source) ? "AAAA" : "A";
  const { name, content } = origin.records.find(({ type }) => type === family) ?? origin.records[0]!;
  const client = clientCertificate(zone, name);
  return {
    ...{ host: content, port: origin.port, localAddress: isIPv6(content) ? edgeSource.v6 : edgeSource.v4 },
    ...{ servername: name, ca: [...originAuthorities], rejectUnauthorized: origin.ssl === "strict" },
    ...(client && { cert: client.certificate, key: client.key }),
  };
}

function clientCertificate({ origin_pulls: pulls }: ZoneState, name: string): Pair | undefined {
  const own = pulls.hostnames.find(({ hostname, enabled }) => hostname === name && enabled);
  const found = pulls.hostname_certificates.find(({ id }) => id === own?.cert_id);
  return found && { certificate: found.certificate, key: found.private_key };
}

/** Exactly one CF-Connecting-IP, whatever the visitor sent; its X-Forwarded-For stays, with the visitor appended. */
export function forwarded({ rawHeaders }: http.IncomingMessage, source: string, ray: string): [string, string][] {
  const earlier = pairs(rawHeaders).flatMap(([name, value]) => (/^x-forwarded-for$/i.test(name) ? value : []));
  return [
    ...pairs(rawHeaders).filter(([name]) => !notForwarded.test(name)),
    ["CF-Connecting-IP", source],
    ["CF-Ray", ray],
    ["X-Forwarded-For", [...earlier, source].join(", ")],
    ["X-Forwarded-Proto", "https"],
  ];
}

export class OriginError extends StatusError<OriginFault> {}

type Sent = { method: string; path: string; headers: [string, string][]; body: Buffer };

/** The origin's answer; rejects with OriginError. */
export function ask(to: https.RequestOptions, sent: Sent, timeout: number): Promise<http.IncomingMessage> {
  const { method, path, headers, body } = sent;
  const length: [string, string][] = body.length > 0 || method === "POST" ? [["Content-Length", `${body.length}`]] : [];
  return new Promise((resolve, reject) => {
    const all = [...headers, ...length].flat();
    // No session is resumed: a resumed one would skip the check of the origin's certificate.
    const request = https.request({ ...to, agent: false, method, path, setHost: false, headers: all });
    let phase: Phase = "connect";
    const connecting = setTimeout(() => {
      request.destroy(new OriginError(phase === "connect" ? 522 : 525, `no ${phase} in time`));
    }, timeout);
    request.once("socket", (socket: Socket) => {
      socket.once("connect", () => (phase = "handshake"));
      socket.once("secureConnect", () => {
        phase = "request";
        clearTimeout(connecting);
      });
    });
    request.once("response", resolve);
    request.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(connecting);
      const reason = error.code ?? error.message;
      reject(error instanceof OriginError ? error : new OriginError(statusOf(error, phase), reason));
    });
    request.end(body);
  });
}

type Phase = "connect" | "handshake" | "request";
function statusOf({ code = "" }: NodeJS.ErrnoException, phase: Phase): OriginFault {
  if (phase === "request") return 520;
  if (phase === "handshake") return /^(EPROTO|ECONNRESET|EPIPE|ERR_SSL_.*)$/.test(code) ? 525 : 526;
  if (code === "ETIMEDOUT") return 522;
  return code === "ECONNREFUSED" || code === "ECONNRESET" ? 521 : 523;
}
