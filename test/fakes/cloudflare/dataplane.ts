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
import { ask, contact, forwarded, OriginError, type OriginOptions, pairs } from "./contact.ts";
import { type Answer, originFault } from "./pages.ts";
import { decide, type Verdict } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";

export type Edge = Awaited<ReturnType<typeof startEdge>>;
type Address = { readonly host: string; readonly port: number };

/** Hop-by-hop headers, and those that Cloudflare writes itself. */
const notReturned =
  /^(connection|keep-alive|proxy-.*|trailer|transfer-encoding|upgrade|server|cf-ray|cf-cache-status)$/i;

/** `listen`: where visitors connect by TLS; port 0 takes a free one. */
export async function startEdge({ listen, ...options }: OriginOptions & { readonly listen: readonly Address[] }) {
  const { zone } = options;
  const authority = await createAuthority("Public CA of the fake Cloudflare");
  const { certificate: cert, key } = await authority.issue(zone.name, [zone.name, `*.${zone.name}`]);
  await authority.close();
  /** One for each request, with what rejected it. */
  const events: { readonly ray: string; readonly decidedBy: Verdict["decidedBy"] }[] = [];

  async function handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    // 16 hexadecimal characters and the data centre.
    const ray = `${randomBytes(8).toString("hex")}-TST`;
    const body = await buffer(request);
    const seen = visitorRequest(request);
    const { source, method, target } = seen;
    const verdict = decide(zone, seen);
    const begin = (status: number, headers: readonly string[]) => {
      events.push({ ray, decidedBy: verdict.decidedBy });
      return response.writeHead(status, [...headers, "cf-ray", ray]);
    };
    const answer = ({ status, headers, body: text }: Answer) =>
      void begin(status, Object.entries(headers).flat()).end(text);
    if (verdict.answer) return answer(verdict.answer);
    const sent = { method, path: target, headers: forwarded(request, source, ray), body };
    const asking = ask(contact(options, verdict, source), sent, options.connectTimeout);
    const got = await asking.catch((error: OriginError) => error);
    if (got instanceof OriginError) return answer(originFault(got.status));
    const kept = pairs(got.rawHeaders).flatMap((pair) => (notReturned.test(pair[0]) ? [] : pair));
    got.on("error", () => response.destroy()).pipe(begin(got.statusCode ?? 520, kept));
  }

  /** As bound, in the order of `listen`. */
  const addresses: Address[] = [];
  const servers: https.Server[] = [];
  for (const { host, port } of listen) {
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
    ...{ addresses, events },
    /** What a visitor must trust. */
    certificate: authority.certificate,
    close: async () => {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

function visitorRequest(request: http.IncomingMessage): EdgeRequest {
  const headers = request.headersDistinct as Record<string, string[]>;
  return {
    source: (request.socket.remoteAddress ?? "").replace(/^::ffff:/, ""),
    host: (headers.host?.[0] ?? "").replace(/:\d+$/, "").toLowerCase(),
    ...{ method: request.method ?? "", target: request.url ?? "/", headers },
  };
}
