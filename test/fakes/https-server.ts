/** A fake API's server: https on a loopback port, with a certificate of an authority of its own. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority } from "./cloudflare/authority.ts";

export type HttpsServer = {
  /** https://localhost:<port> */
  readonly origin: string;
  readonly ca: string;
  readonly caFile: string;
  readonly goAway: () => Promise<void>;
  readonly close: () => Promise<void>;
};

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export async function startHttpsServer(answer: Answer): Promise<HttpsServer> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-api-"));
  const authority = await createAuthority("the fake API's authority");
  const { certificate, key } = await authority.issue("localhost", ["localhost"]);
  const ca = authority.certificate;
  await authority.close();
  const caFile = join(folder, "ca.pem");
  writeFileSync(caFile, ca);
  const server = createServer({ cert: certificate, key }, (request, response) => void answer(request, response));
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  const goAway = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    origin: `https://localhost:${(server.address() as AddressInfo).port}`,
    ca,
    caFile,
    goAway,
    async close() {
      if (server.listening) await goAway();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
