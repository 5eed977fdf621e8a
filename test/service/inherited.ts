/** Hands sockets to a child process as systemd does. */
import { once } from "node:events";
import { createServer, type ListenOptions } from "node:net";

/** A listening socket for a child, which still holds it after `server.close()`. */
export async function listening(where: ListenOptions) {
  const server = createServer().listen(where);
  await once(server, "listening");
  return { server, fd: (server as unknown as { _handle: { fd: number } })._handle.fd };
}

/** A script for sh that runs "$@" with the variables set as by systemd: LISTEN_PID is the program's own. */
export const activated = (count: number) => `export LISTEN_PID=$$ LISTEN_FDS=${count}; exec "$@"`;
