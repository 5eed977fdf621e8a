/** The server of a fake API or git host: https, with a certificate of an authority of its own. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { createAuthority } from "./cloudflare/authority.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Writes ca.pem, own.pem and own.key: a certificate of this name, and of an authority of its own. */
export async function writeIdentity(folder: string, name: string): Promise<void> {
  const authority = await createAuthority(`the authority of ${name}`);
  const { certificate, key } = await authority.issue(name, [name]);
  const files = { "ca.pem": authority.certificate, "own.pem": certificate, "own.key": key };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  await authority.close();
}

/** Has the requests of this process trust the authority, too. */
export const trust = (ca: string): void => setDefaultCACertificates([...getCACertificates(), ca]);

/** Sends a byte each 50 ms, without end. */
export function trickle(response: ServerResponse): void {
  const timer = setInterval(() => response.write("x"), 50);
  response.on("close", () => clearInterval(timer));
}

export type ServerOptions = {
  /** The name in its certificate and its addresses. */
  readonly name?: string;
  readonly addresses?: readonly string[];
  readonly port?: number;
  /** The folder of a server of that name, of which this one has a copy, with its certificate. */
  readonly from?: string | undefined;
};

/** Listens on one port of each address, and has a folder of its own. `close` ends all connections, too. */
export async function startHttpsServer(answer: Answer, options: ServerOptions = {}) {
  const { name = "localhost", addresses = ["localhost"], port = 0, from } = options;
  const folder = mkdtempSync(join(tmpdir(), "pushgate-server-"));
  if (from === undefined) await writeIdentity(folder, name);
  else cpSync(from, folder, { recursive: true });
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
  const caFile = join(folder, "ca.pem");
  return {
    ...{ origin: `https://${name}${at === 443 ? "" : `:${at}`}`, port: at },
    ...{ folder, ca: readFileSync(caFile, "utf8"), caFile },
    async close() {
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Serves one of the fake APIs. */
export const startServerOf = async <Api extends { readonly answer: Answer }>(api: Api) => ({
  ...{ api, ...(await startHttpsServer((request, response) => api.answer(request, response))) },
});
