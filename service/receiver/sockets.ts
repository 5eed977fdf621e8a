/** Where a receiver listens, and how it stops without losing a request. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { Receiver } from "../settings.ts";

/** One server for each socket systemd handed over, else one on `listen`. Resolves when all are listening. */
export async function listen(
  { sockets, settings }: Pick<Receiver, "sockets" | "settings">,
  create: () => Server,
): Promise<Server[]> {
  const places = sockets.length > 0 ? sockets.map((fd) => ({ fd })) : settings.listen ? [{ ...settings.listen }] : [];
  return Promise.all(
    places.map(async (place) => {
      const server = create().listen(place);
      await once(server, "listening");
      return server;
    }),
  );
}

/** Longer than a request may take (requestTimeout, 8 s), shorter than systemd waits before it kills. */
const patience = 10_000;

/**
 * Stops accepting and resolves when the last open request is answered, at the latest after 10 s. What connects in the
 * meantime waits in the socket, which systemd keeps open, for the next receiver.
 */
export async function drain(servers: readonly Server[]): Promise<void> {
  const closed = Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  // A kept connection becomes idle only after its answer, and Node 18 closes none of them by itself.
  const idle = setInterval(() => {
    for (const server of servers) server.closeIdleConnections();
  }, 50);
  const late = setTimeout(() => {
    for (const server of servers) server.closeAllConnections();
  }, patience);
  await closed;
  clearInterval(idle);
  clearTimeout(late);
}
