/** Services that a host can reach and a build must not: an in-house service, and the cloud's metadata with its keys. */
import { createServer, type Server } from "node:http";
import { actors } from "./net.ts";

export const internalSecret = "AKIA-OF-THE-MACHINE";

export type Internal = {
  /** An IPv4 address. */
  readonly metadata: string;
  /** Each URL answers with the secret. */
  readonly urls: readonly string[];
  /** The addresses that received requests since the start, in order. */
  readonly requested: string[];
  readonly close: () => Promise<void>;
};

/** Starts the first of the lab's sets of services that does not run yet. */
export async function startInternal(): Promise<Internal> {
  for (const [index, inHouse] of actors.inHouse.v4.entries()) {
    try {
      return await startSet(inHouse, actors.metadata.v4[index]!, actors.metadata.v6[index]!);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
  throw new Error("all in-house services of the lab are running: close one, or give lab/net.ts more addresses");
}

async function startSet(inHouse: string, metadata: string, metadata6: string): Promise<Internal> {
  const requested: string[] = [];
  const listen = (address: string, port: number) =>
    new Promise<Server>((resolve, reject) => {
      const server: Server = createServer((_, response) => {
        requested.push(address);
        // Hugo rejects a response without a known content type.
        response.setHeader("content-type", "text/plain").end(`${internalSecret}\n`);
      });
      server.once("error", reject).listen(port, address, () => resolve(server));
    });
  // The first address is also the lock on the others.
  const servers = [await listen(inHouse, 80)];
  // Also on 443, the port that a build may use elsewhere.
  servers.push(await listen(inHouse, 443));
  for (const address of [metadata, metadata6]) for (const port of [80, 443]) servers.push(await listen(address, port));
  return {
    metadata,
    urls: [inHouse, metadata, `[${metadata6}]`].flatMap((address) =>
      [80, 443].map((port) => `http://${address}:${port}/`),
    ),
    requested,
    async close() {
      for (const server of servers) server.closeAllConnections();
      // The lock on the others goes last.
      for (const server of servers.toReversed()) await new Promise((resolve) => server.close(resolve));
    },
  };
}
