/** A fake API's server: https on a loopback port, with a certificate of an authority of its own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { createAuthority } from "./cloudflare/authority.ts";

export type HttpsServer = Awaited<ReturnType<typeof startHttpsServer>>;
type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Writes ca.pem, own.pem and own.key: a certificate of this name, and of an authority of its own. */
export async function writeIdentity(folder: string, name: string): Promise<void> {
  const authority = await createAuthority(`the authority of ${name}`);
  const { certificate, key } = await authority.issue(name, [name]);
  const files = { "ca.pem": authority.certificate, "own.pem": certificate, "own.key": key };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  await authority.close();
}

/** Listens on one port of each address. `close` ends all connections, too. */
export async function listening(folder: string, answer: Answer, addresses: readonly string[], port = 0) {
  const identity = { cert: readFileSync(join(folder, "own.pem")), key: readFileSync(join(folder, "own.key")) };
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  let at = port;
  for (const host of addresses) {
    const server = createServer(identity, (request, response) => void answer(request, response));
    server.on("connection", (socket: Socket) => {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(at, host, resolve);
    });
    servers.push(server);
    at = (server.address() as AddressInfo).port;
  }
  const close = async () => {
    const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const socket of sockets) socket.destroy();
    await Promise.all(closed);
  };
  return { port: at, close };
}

/** Has the requests of this process trust the authority, too. */
export const trust = (ca: string): void => setDefaultCACertificates([...getCACertificates(), ca]);

/** Sends a byte each 50 ms, without end. */
export function trickle(response: ServerResponse): void {
  const timer = setInterval(() => response.write("x"), 50);
  response.on("close", () => clearInterval(timer));
}

export async function startHttpsServer(answer: Answer) {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-api-"));
  await writeIdentity(folder, "localhost");
  const caFile = join(folder, "ca.pem");
  const { port, close } = await listening(folder, answer, ["localhost"]);
  return {
    ...{ origin: `https://localhost:${port}`, ca: readFileSync(caFile, "utf8"), caFile },
    async close() {
      await close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Serves one of the fake APIs. */
export const startServerOf = async <Api extends { readonly answer: Answer }>(api: Api) => ({
  ...{ api, ...(await startHttpsServer((request, response) => api.answer(request, response))) },
});
