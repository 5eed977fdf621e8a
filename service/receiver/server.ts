/** Node's HTTP servers around the app: their bounds, the answers to what Node's parser rejects, their start and end. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Journal } from "../journal.ts";
import { type Headers, rejections } from "./answer.ts";

export const bounds = {
  maxHeaderSize: 8 << 10, // GitHub's headers have about 2 KiB after Cloudflare and nginx
  headersTimeout: 5_000,
  requestTimeout: 8_000, // and a second until the next check: nginx gives up after 9 s, GitHub after 10 s
  connectionsCheckingInterval: 1_000, // Node's default is 30 s
  keepAliveTimeout: 5_000, // for direct clients only: nginx opens a connection for each request
  maxConnections: 512, // of each socket: 16 sources with 32 open requests each. Node raises its own limit of descriptors
};

/** The answers to errors of Node's parser, by their codes; any other is a 400. */
const parserStatus: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
};

type Connection = Socket & { latest?: ServerResponse };

export function createReceiver(app: RequestListener, journal: Journal, bound = bounds): Server {
  const listener: RequestListener = (req, res) => {
    (req.socket as Connection).latest = res;
    app(req, res);
  };
  // Node's own 400 for a missing Host header, and its 417 for an unknown Expect header, would not carry X-Served-By.
  const server = createServer({ ...bound, requireHostHeader: false }, listener);
  server.maxConnections = bound.maxConnections;
  server.on("checkExpectation", listener);

  const record = (status: number, reason: string, source: string | undefined) =>
    journal({ delivery: null, hook: null, source: source ?? null, status, reason, ms: 0 });
  const reject = (socket: Socket, status: number, reason: string, headers?: Headers) => {
    record(status, reason, socket.remoteAddress);
    socket.end(raw(status, headers), () => socket.destroy());
  };

  server.on("connect", (_req, socket: Socket) => reject(socket, 405, "the method is CONNECT", ["Allow", "POST"]));
  const broken = (error: NodeJS.ErrnoException, socket: Connection) => {
    const res = socket.latest;
    const status = parserStatus[error.code ?? ""] ?? 400;
    const reason = `not valid HTTP: ${error.code ?? error.name}`;
    if (!socket.writable || (res && error.code === "HPE_INVALID_EOF_STATE"))
      socket.destroy(); // the sender left
    else if (!res || res.writableFinished) reject(socket, status, reason);
    else if (res.headersSent) socket.end(() => socket.destroy());
    // The request's body is incomplete: its exchange writes the journal's line, with the error's status.
    else socket.end(raw(status), () => res.req.destroy(Object.assign(new Error(reason), { status })));
  };
  // Delayed, so that the answer to an earlier request in the same bytes goes first (answer.ts).
  server.on("clientError", (error, socket) => void setImmediate(broken, error, socket as Connection));
  server.on("drop", (peer) => record(0, `${bound.maxConnections} connections are open`, peer?.remoteAddress));
  return server;
}

function raw(status: number, more: Headers = []): string {
  const { text, headers } = rejections[status]!;
  const lines = [...headers, ...more, "Connection", "close"].map((text, i) => text + (i % 2 === 0 ? ": " : "\r\n"));
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${text}`;
}

/** Starts a server for each socket that systemd passed. */
export async function listen(sockets: readonly number[], app: RequestListener, journal: Journal) {
  const servers = sockets.map((fd) => createReceiver(app, journal).listen({ fd }));
  await Promise.all(servers.map((server) => once(server, "listening")));
  return servers;
}

/** Resolves after the last open request's answer. New connections wait in systemd's socket for the next receiver. */
export async function drain(servers: readonly Server[]): Promise<void> {
  // Node 18's close() returns nothing, so `once(server.close(), …)` would end the receiver here.
  const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
  // Node 18 does not close idle connections, and a kept one becomes idle only after its answer.
  setInterval(() => servers.map((server) => server.closeIdleConnections()), 50).unref();
  // Longer than a request may take (8 s), shorter than systemd waits before SIGKILL.
  setTimeout(() => servers.map((server) => server.closeAllConnections()), 10_000).unref();
  await Promise.all(closed);
}
