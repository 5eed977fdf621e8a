/** Services that a host can reach and a build must not: an in-house service, and the cloud's metadata with its keys. */
import { createServer, type Server } from "node:http";
import { actors } from "./net.ts";

export const internalSecret = "AKIA-OF-THE-MACHINE";

export type Internal = {
  /** Each URL answers with the secret. */
  readonly urls: readonly string[];
  /** The addresses that received requests since the start, in order. */
  readonly requested: string[];
  readonly close: () => Promise<void>;
};

export async function startInternal(): Promise<Internal> {
  const requested: string[] = [];
  const addresses = [...actors.internal.v4, ...actors.internal.v6];
  const servers = await Promise.all(
    // Also on 443, the port that a build may use elsewhere.
    addresses.flatMap((address) =>
      [80, 443].map(
        (port) =>
          new Promise<Server>((resolve, reject) => {
            const server: Server = createServer((_, response) => {
              requested.push(address);
              // hugo rejects a response without a known content type.
              response.setHeader("content-type", "text/plain").end(`${internalSecret}\n`);
            });
            server.once("error", reject).listen(port, address, () => resolve(server));
          }),
      ),
    ),
  );
  return {
    urls: addresses.flatMap((address) =>
      [80, 443].map((port) => `http://${address.includes(":") ? `[${address}]` : address}:${port}/`),
    ),
    requested,
    async close() {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}
