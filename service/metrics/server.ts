/** Answers `GET /metrics` on a unix socket, and nothing else. Not on the sockets for deliveries, which the git host reaches. */
import { createServer, type Server } from "node:http";
import { tried } from "../tried.ts";

const bounds = {
  maxHeaderSize: 8 << 10,
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  requireHostHeader: false,
};
const always = { "Content-Type": "text/plain; version=0.0.4; charset=utf-8", Connection: "close" };

/** The receiver ends without waiting for the connections of this server. */
export function createMetricsServer(collect: () => string): Server {
  const server = createServer(bounds, (req, res) => {
    const respond = (status: number, text: string, more = {}) =>
      res.writeHead(status, { ...always, "Content-Length": Buffer.byteLength(text), ...more }).end(text);
    if (req.url !== "/metrics") return respond(404, "The metrics are at /metrics.\n");
    if (req.method !== "GET") return respond(405, "", { Allow: "GET" });
    const text = tried(collect);
    return text === undefined ? respond(500, "") : respond(200, text);
  });
  server.maxConnections = 16;
  return server;
}
