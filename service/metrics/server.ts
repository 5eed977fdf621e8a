/** Answers `GET /metrics` on a unix socket, and nothing else. Not on the sockets for deliveries, which the git host reaches. */
import { createServer, type RequestListener, type Server } from "node:http";
import { contentType } from "./exposition.ts";

const bounds = {
  maxHeaderSize: 8 << 10,
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  requireHostHeader: false,
};
const maxConnections = 16;

/** The receiver ends without waiting for the connections of this server. */
export function createMetricsServer(collect: () => Promise<string>): Server {
  const server = createServer(bounds, answer(shared(collect)));
  server.maxConnections = maxConnections;
  return server;
}

const answer =
  (collect: () => Promise<string>): RequestListener =>
  async (req, res) => {
    const respond = (status: number, text: string, headers = {}) =>
      res
        .writeHead(status, {
          ...{ "Content-Type": contentType, "Content-Length": Buffer.byteLength(text), Connection: "close" },
          ...headers,
        })
        .end(text);
    if (req.url !== "/metrics") return respond(404, "The metrics are at /metrics.\n");
    if (req.method !== "GET") return respond(405, "", { Allow: "GET" });
    try {
      return respond(200, await collect());
    } catch {
      return respond(500, "");
    }
  };

/** Requests during a collection share it. */
function shared(collect: () => Promise<string>): () => Promise<string> {
  let running: Promise<string> | undefined;
  return () => {
    running ??= collect().finally(() => {
      running = undefined;
    });
    return running;
  };
}
