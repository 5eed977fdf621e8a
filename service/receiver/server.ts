/** Node's HTTP servers around the app: their limits, the answers to what Node's parser rejects, their start and end. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Receiver } from "../settings.ts";
import { type Journal, Rejection, rendered } from "./answer.ts";

/** Milliseconds, bytes and connections. */
export const bounds = {
  /** GitHub's headers have about 2 KiB after Cloudflare and nginx. */
  maxHeaderSize: 8 << 10,
  headersTimeout: 5_000,
  /** With the second between two checks this ends before nginx gives up, at 9 s, and GitHub, at 10 s. */
  requestTimeout: 8_000,
  /** Node's default of 30 s between two checks would turn the 8 s into 38 s. */
  connectionsCheckingInterval: 1_000,
  /** For direct clients only: nginx opens a connection for each request. */
  keepAliveTimeout: 5_000,
  /** 16 sources with 32 open requests each; far below the 1,024 descriptors that systemd allows. */
  maxConnections: 512,
} as const;

export type Bounds = { readonly [name in keyof typeof bounds]: number };

/** The answers to errors of Node's parser, by their codes; any other is a 400. */
const parserStatus: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
};

export function createReceiver(app: RequestListener, journal: Journal, bound: Bounds = bounds): Server {
  // Node's own 400 for a missing Host header would not carry X-Served-By, and the receiver does not need the header.
  const server = createServer({ ...bound, requireHostHeader: false });
  server.maxConnections = bound.maxConnections;
  /** The latest request of a connection. */
  const latest = new WeakMap<Socket, Parameters<RequestListener>>();
  const listener: RequestListener = (req, res) => {
    latest.set(req.socket, [req, res]);
    app(req, res);
  };
  server.on("request", listener);
  // Node would answer an unknown Expect header with a 417 that does not carry X-Served-By.
  server.on("checkExpectation", listener);

  const record = (status: number, reason: string, source: string | undefined) =>
    journal({ delivery: null, hook: null, source: source ?? null, status, reason, ms: 0 });
  const reject = (socket: Socket, status: number, reason: string, headers = {}) => {
    record(status, reason, socket.remoteAddress);
    socket.end(raw(status, headers), () => socket.destroy());
  };

  server.on("connect", (_req, socket: Socket) => reject(socket, 405, "the method is CONNECT", { Allow: "POST" }));

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    const [req, res] = latest.get(socket) ?? [];
    const status = parserStatus[error.code ?? ""] ?? 400;
    const reason = `not valid HTTP: ${error.code ?? error.name}`;
    const left = error.code === "ECONNRESET" || (req !== undefined && error.code === "HPE_INVALID_EOF_STATE");
    // The sender left, or has its answer: a request that had begun writes its own line.
    if (left || !socket.writable) socket.destroy();
    else if (!req || !res || res.writableFinished) reject(socket, status, reason);
    // Half of a request: its exchange writes the line, after the answer went out on the socket.
    else if (!res.headersSent)
      socket.end(raw(status), () => req.destroy(new Rejection(status, reason) as unknown as Error));
    else socket.end(() => socket.destroy());
  });

  server.on("drop", (connection) =>
    record(0, `${bound.maxConnections} connections are open`, connection?.remoteAddress),
  );
  return server;
}

/** A rejection as bytes, where Node has no ServerResponse. */
function raw(status: number, more: Readonly<Record<string, string>> = {}): string {
  const { text, headers } = rendered({ status: STATUS_CODES[status] });
  const lines = Object.entries({ ...headers, ...more, Connection: "close" }).map((pair) => `${pair.join(": ")}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${text}`;
}

/** Starts one server for each socket that systemd passed, else one on `settings.listen`. */
export function listen({ sockets, settings }: Receiver, app: RequestListener, journal: Journal): Promise<Server[]> {
  const places = sockets.length > 0 ? sockets.map((fd) => ({ fd })) : [{ ...settings.listen }];
  const started = places.map(async (place) => {
    const server = createReceiver(app, journal).listen(place);
    await once(server, "listening");
    return server;
  });
  return Promise.all(started);
}

/**
 * Stops accepting, and resolves after the answer to the last open request. New connections wait in the socket, which
 * systemd keeps open, for the next receiver.
 */
export async function drain(servers: readonly Server[]): Promise<void> {
  const closed = servers.map((server) => once(server.close(), "close"));
  // Node 18 closes no kept connection by itself, and one becomes idle only after its answer.
  setInterval(() => servers.map((server) => server.closeIdleConnections()), 50).unref();
  // Longer than a request may take (8 s), shorter than systemd waits before SIGKILL.
  setTimeout(() => servers.map((server) => server.closeAllConnections()), 10_000).unref();
  await Promise.all(closed);
}
