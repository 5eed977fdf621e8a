/**
 * The fake Cloudflare as a server: it ends the visitor's TLS, has `decide` judge the request, and connects to the origin
 * as the zone says, from one of Cloudflare's addresses, with the client certificate of the hostname. The visitor's address
 * is that of its TCP connection. A body is read whole before the origin is contacted.
 */
import { randomBytes } from "node:crypto";
import type http from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { createAuthority } from "./authority.ts";
import { cacheOf } from "./cache.ts";
import { ask, contact, forwarded, OriginError, type OriginOptions, pairs } from "./contact.ts";
import { type Answer, originFault } from "./pages.ts";
import { decide, type SecurityEvent } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";

export type EdgeOptions = OriginOptions & {
  /** Where visitors connect by TLS; port 0 takes a free one. */
  readonly listen: readonly { readonly host: string; readonly port: number }[];
};

/** One request, as Security Events and the access log would show it together. */
export type EdgeEvent = {
  readonly ray: string;
  readonly target: string;
  readonly status: number;
  readonly decidedBy?: SecurityEvent | undefined;
};

export type Edge = {
  /** As bound, in the order of `listen`. */
  readonly addresses: readonly { host: string; port: number }[];
  /** What a visitor must trust. */
  readonly certificate: string;
  readonly events: EdgeEvent[];
  readonly close: () => Promise<void>;
};

/** Hop-by-hop headers, and those that Cloudflare writes itself. */
const notReturned =
  /^(connection|keep-alive|proxy-.*|trailer|transfer-encoding|upgrade|server|cf-ray|cf-cache-status)$/i;

export async function startEdge(options: EdgeOptions): Promise<Edge> {
  const { zone } = options;
  const authority = await createAuthority("Public CA of the fake Cloudflare");
  const { certificate: cert, key } = await authority.issue(zone.name, [zone.name, `*.${zone.name}`]);
  await authority.close();
  const events: EdgeEvent[] = [];

  async function handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    // 16 hexadecimal characters and the data centre.
    const ray = `${randomBytes(8).toString("hex")}-TST`;
    const body = await buffer(request);
    const seen = visitorRequest(request);
    const { source, method, target } = seen;
    const verdict = decide(zone, seen);
    const { decidedBy } = verdict;
    const answer = ({ status, headers, body: text }: Answer) => {
      events.push({ ray, target, status, decidedBy });
      response.writeHead(status, { ...headers, "cf-ray": ray }).end(text);
    };
    if (verdict.answer) return answer(verdict.answer);
    const [url, cache] = [`https://${seen.host}${target}`, cacheOf(zone)];
    const known = verdict.caches && method === "GET" ? cache.get(url) : undefined;
    if (known) {
      events.push({ ray, target, status: 200, decidedBy });
      const own = { server: "cloudflare", "cf-ray": ray, "cf-cache-status": "HIT" };
      response.writeHead(200, [...known.headers, ...Object.entries(own).flat()]).end(known.body);
      return;
    }
    const sent = { method, path: target, headers: forwarded(request, source, ray), body };
    const asking = ask(contact(options, verdict, source), sent, options.connectTimeout);
    const got = await asking.catch((error: OriginError) => error);
    if (got instanceof OriginError) return answer(originFault(got.status));
    const status = got.statusCode ?? 520;
    events.push({ ray, target, status, decidedBy });
    const kept = pairs(got.rawHeaders).filter(([name]) => !notReturned.test(name));
    const own = { server: "cloudflare", "cf-ray": ray, "cf-cache-status": verdict.caches ? "MISS" : "DYNAMIC" };
    const parts: Buffer[] = [];
    if (verdict.caches && method === "GET" && status === 200)
      got
        .on("data", (part: Buffer) => parts.push(part))
        .on("end", () => cache.set(url, { headers: kept.flat(), body: Buffer.concat(parts) }));
    response.writeHead(status, [...kept, ...Object.entries(own)].flat());
    got.on("error", () => response.destroy()).pipe(response);
  }

  const addresses: { host: string; port: number }[] = [];
  const servers: https.Server[] = [];
  for (const { host, port } of options.listen) {
    const server = https.createServer({ cert, key }, (request, response) => {
      // A fault of the fake itself: 599, which is no answer of the real Cloudflare.
      handle(request, response).catch((error: unknown) =>
        response.writeHead(599).end(`fake Cloudflare: ${String(error)}`),
      );
    });
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
    servers.push(server);
    addresses.push({ host, port: (server.address() as AddressInfo).port });
  }
  return {
    ...{ addresses, events, certificate: authority.certificate },
    close: async () => {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

function visitorRequest(request: http.IncomingMessage): EdgeRequest {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of pairs(request.rawHeaders))
    headers[name.toLowerCase()] = [...(headers[name.toLowerCase()] ?? []), value];
  return {
    source: (request.socket.remoteAddress ?? "").replace(/^::ffff:/, ""),
    host: (headers.host?.[0] ?? "").replace(/:\d+$/, "").toLowerCase(),
    ...{ method: request.method ?? "", target: request.url ?? "/", headers },
  };
}
