/** What a host can reach and a build must not: the cloud's metadata with its keys. */
import { createServer } from "node:http";
import { actors } from "./net.ts";

export const internalSecret = "AKIA-OF-THE-MACHINE";

/**
 * Starts the first of the lab's metadata services that does not run yet. `metadata`: an IPv4 address, which answers with the
 * secret on 443, the port that a build may use elsewhere. `requested`: the number of requests since the start.
 */
export async function startInternal() {
  let requested = 0;
  const server = createServer((_, response) => {
    requested++;
    // Hugo rejects a response without a known content type.
    response.setHeader("content-type", "text/plain").end(`${internalSecret}\n`);
  });
  for (const metadata of actors.metadata.v4) {
    const isFree = await new Promise((resolve) => {
      server.once("error", () => resolve(false)).listen(443, metadata, () => resolve(true));
    });
    const close = () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    };
    if (isFree) return { metadata, requested: () => requested, close };
  }
  throw new Error("all metadata services of the lab are running: close one, or give lab/net.ts more addresses");
}
