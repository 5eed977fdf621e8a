/**
 * The fake Cloudflare as a server: it ends the visitor's TLS, has `decide` judge the request, and connects to the origin
 * as the zone says, from one of Cloudflare's addresses, with the client certificate of the hostname. The visitor's address
 * is that of its TCP connection. A body is read whole before the origin is contacted.
 */
import { randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { createAuthority } from "./authority.ts";
import { ask, contact, forwarded, OriginError, type OriginOptions, pairs } from "./contact.ts";
import { type Answer, originFault } from "./pages.ts";
import { decide, type SecurityEvent, type Verdict } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";
import { record } from "./security-log.ts";
import { rulesOf, type ZoneState } from "./zone.ts";

export type Listen = { readonly host: string; readonly port: number; readonly tls?: boolean };

export type EdgeOptions = OriginOptions & {
  /** Where visitors connect; port 0 takes a free one; TLS by default. */
  readonly listen: readonly Listen[];
};

/** One request, as Security Events and the access log would show it together. */
export type EdgeEvent = {
  readonly ray: string;
  readonly source: string;
  readonly host: string;
  readonly method: string;
  readonly target: string;
  /** What the visitor got. */
  readonly status: number;
  readonly action: Verdict["action"];
  readonly decidedBy?: SecurityEvent;
  readonly events: readonly SecurityEvent[];
  /** Whether the origin was contacted, and its answer, if any. */
  readonly origin?: {
    readonly address: string;
    readonly port: number;
    readonly status?: number;
    readonly error?: string;
  };
};

export type Edge = {
  /** As bound, in the order of `listen`. */
  readonly addresses: readonly { host: string; port: number }[];
  /** What a visitor must trust. */
  readonly certificate: string;
  readonly events: EdgeEvent[];
  readonly close: () => Promise<void>;
};

/** 16 hexadecimal characters and the data centre. */
const newRay = (): string => `${randomBytes(8).toString("hex")}-TST`;

/** Hop-by-hop headers, and those that Cloudflare writes itself. */
const notReturned =
  /^(connection|keep-alive|proxy-.*|trailer|transfer-encoding|upgrade|server|cf-ray|cf-cache-status)$/i;

export async function startEdge(options: EdgeOptions): Promise<Edge> {
  const { zone } = options;
  const authority = await createAuthority("Public CA of the fake Cloudflare");
  const { certificate: cert, key } = await authority.issue(zone.name, [zone.name, `*.${zone.name}`]);
  await authority.close();
  const events: EdgeEvent[] = [];
  const count = counters(zone);

  async function handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const ray = newRay();
    const body = await bodyOf(request);
    const seen = visitorRequest(request);
    const asked: EdgeRequest = {
      ...seen,
      attackLike: body.includes("${jndi:"),
      counted: (ref) => count(ref, seen.source),
    };
    const verdict = decide(zone, asked);
    record(zone, ray, verdict.events);
    const about = { ray, source: asked.source, host: asked.host, method: asked.method, target: asked.target };
    const log = (status: number, origin?: EdgeEvent["origin"]) =>
      events.push({
        ...{ ...about, status, action: verdict.action, events: verdict.events },
        ...(verdict.decidedBy ? { decidedBy: verdict.decidedBy } : {}),
        ...(origin ? { origin } : {}),
      });
    const answer = ({ status, headers, body: text }: Answer) =>
      response.writeHead(status, { ...headers, "cf-ray": ray }).end(text);
    if (verdict.answer) {
      log(verdict.answer.status);
      answer(verdict.answer);
      return;
    }
    const to = contact(options, verdict, asked.source);
    const sent = { to, method: asked.method, target: asked.target, headers: forwarded(request, asked, ray), body };
    const got = await ask(sent, options).catch((error: OriginError) => error);
    if (got instanceof OriginError) {
      log(got.status, { ...to.where, error: got.message });
      answer(originFault(got.status));
      return;
    }
    const status = got.statusCode ?? 520;
    log(status, { ...to.where, status });
    const kept = pairs(got.rawHeaders).filter(([name]) => !notReturned.test(name));
    response.writeHead(
      status,
      [...kept, ["server", "cloudflare"], ["cf-ray", ray], ["cf-cache-status", "DYNAMIC"]].flat(),
    );
    got.on("error", () => response.destroy()).pipe(response);
  }

  const servers = options.listen.map(({ tls = true }) => {
    const listener = (request: http.IncomingMessage, response: http.ServerResponse) => {
      // A fault of the fake itself: 599, which is no answer of the real Cloudflare.
      handle(request, response).catch((error: unknown) =>
        response.writeHead(599).end(`fake Cloudflare: ${String(error)}`),
      );
    };
    return tls ? https.createServer({ cert, key }, listener) : http.createServer(listener);
  });
  const bound = servers.map(async (server, index) => {
    const { host, port } = options.listen[index]!;
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
    return { host, port: (server.address() as AddressInfo).port };
  });
  return {
    addresses: await Promise.all(bound),
    certificate: authority.certificate,
    events,
    close: async () => {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

async function bodyOf(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function visitorRequest(request: http.IncomingMessage): EdgeRequest {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of pairs(request.rawHeaders)) {
    const values = headers[name.toLowerCase()];
    if (values) values.push(value);
    else headers[name.toLowerCase()] = [value];
  }
  const host = (headers.host?.[0] ?? "").replace(/:\d+$/, "").toLowerCase();
  return {
    ...{ source: (request.socket.remoteAddress ?? "").replace(/^::ffff:/, ""), method: request.method ?? "", host },
    ...{ target: request.url ?? "/", ssl: "encrypted" in request.socket, headers },
  };
}

/** A rate rule counts each source in a fixed window, and then blocks the source for its timeout. */
function counters(zone: ZoneState): (ref: string, source: string) => number {
  const windows = new Map<string, { from: number; seen: number; until: number }>();
  return (ref, source) => {
    const limit = rulesOf(zone, "http_ratelimit").find((rule) => rule.ref === ref)?.ratelimit;
    const at = Date.now();
    const window = windows.get(`${ref} ${source}`) ?? { from: at, seen: 0, until: 0 };
    windows.set(`${ref} ${source}`, window);
    if (at < window.until) return Number.POSITIVE_INFINITY;
    if (at >= window.from + (limit?.period ?? 10) * 1000) Object.assign(window, { from: at, seen: 0 });
    window.seen++;
    if (window.seen > (limit?.requests_per_period ?? Number.POSITIVE_INFINITY))
      window.until = at + (limit?.mitigation_timeout ?? 10) * 1000;
    return window.seen;
  };
}
