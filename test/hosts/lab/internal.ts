/** What a machine reaches and a build must not: a service in-house, and the cloud's metadata with a machine's keys. */
import { createServer, type Server } from "node:http";
import { actors } from "./net.ts";

export const internalSecret = "AKIA-OF-THE-MACHINE";

export type Internal = {
  /** Each answers with the secret. */
  readonly urls: readonly string[];
  /** Addresses that were asked since the start, as they came. */
  readonly asked: string[];
  readonly close: () => Promise<void>;
};

export async function startInternal(): Promise<Internal> {
  const asked: string[] = [];
  const addresses = [...actors.internal.v4, ...actors.internal.v6];
  const servers = await Promise.all(
    // 443 as well: the port a build may use elsewhere.
    addresses.flatMap((address) =>
      [80, 443].map(
        (port) =>
          new Promise<Server>((resolve, reject) => {
            const server: Server = createServer((_, response) => {
              asked.push(address);
              // hugo takes nothing whose type it can't tell.
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
    asked,
    async close() {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}
