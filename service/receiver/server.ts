/** Node's HTTP server around the app: its times and sizes, and its parser's own refusals in our form. */
import { createServer, type RequestListener, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { servedBy } from "./exchange.ts";
import type { Journal } from "./journal.ts";
import { Refusal } from "./refusal.ts";

/** Milliseconds, bytes and connections. */
export const bounds = {
  /** GitHub's request through edge and proxy has about 2 KiB of headers. */
  maxHeaderSize: 8 << 10,
  headersTimeout: 5_000,
  /** With the second between two looks this ends before the proxy gives up, at 9 s, and GitHub, at 10 s. */
  requestTimeout: 8_000,
  /** Node's own 30 s between two looks would make 38 s of the 8. */
  connectionsCheckingInterval: 1_000,
  /** For direct clients only: the proxy opens a connection for each request. */
  keepAliveTimeout: 5_000,
  /** 16 sources with all their 32 places taken; far below the 1,024 descriptors that systemd gives. */
  maxConnections: 512,
} as const;

export type Bounds = { readonly [name in keyof typeof bounds]: number };

/** What Node's parser refuses, by its code; anything else is 400. */
const parserStatus: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
};

export function createReceiver(
  app: RequestListener,
  journal: Journal,
  { maxConnections, ...times }: Bounds = bounds,
): Server {
  // Nothing here asks for the host's name, and Node's own 400 would not say who gave it.
  const server = createServer({ ...times, requireHostHeader: false });
  server.maxConnections = maxConnections;
  /** The answer a connection is waiting for. */
  const pending = new WeakMap<Socket, Parameters<RequestListener>>();
  const listener: RequestListener = (req, res) => {
    pending.set(req.socket, [req, res]);
    app(req, res);
  };
  server.on("request", listener);
  // An expectation we don't know is no reason to refuse: without this line Node says 417, and not that it was us.
  server.on("checkExpectation", listener);

  server.on("connect", (_req, socket: Socket) => refuse(socket, 405, "method CONNECT", "Allow: POST\r\n"));

  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    const [req, res] = pending.get(socket) ?? [];
    const status = parserStatus[error.code ?? ""] ?? 400;
    const reason = `not HTTP as it should be: ${error.code ?? error.name}`;
    const left = error.code === "ECONNRESET" || (req !== undefined && error.code === "HPE_INVALID_EOF_STATE");
    // Left in the middle, or answered already: nobody is waiting, and a request that had begun writes its own line.
    if (left || !socket.writable) socket.destroy();
    else if (!req || !res || res.writableFinished) refuse(socket, status, reason);
    // Half a request: its exchange keeps the journal, so it is told once the answer went out beside it.
    else if (!res.headersSent) socket.end(raw(status), () => req.destroy(new Refusal(status, reason)));
    else socket.end(() => socket.destroy());
  });

  server.on("drop", (connection?: { remoteAddress?: string }) => {
    const source = connection?.remoteAddress ?? null;
    journal({ delivery: null, hook: null, source, status: 0, reason: `${maxConnections} connections are open`, ms: 0 });
  });

  function refuse(socket: Socket, status: number, reason: string, headers = ""): void {
    const source = socket.remoteAddress ?? null;
    journal({ delivery: null, hook: null, source, status, reason, ms: 0 });
    socket.end(raw(status, headers), () => socket.destroy());
  }

  return server;
}

/** An answer where there is no ServerResponse to write it. */
function raw(status: number, headers = ""): string {
  const body = `${JSON.stringify({ status: STATUS_CODES[status] })}\n`;
  return (
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nX-Served-By: ${servedBy["X-Served-By"]}\r\n${headers}` +
    `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}
