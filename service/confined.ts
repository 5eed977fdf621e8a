/** What builder and reporter look at before they use the network: `nft flush ruleset` may have removed the egress table. */
import { createSocket } from "node:dgram";

/** Whether the egress table limits this account: it has the kernel reject all datagrams but those to name servers. */
export function isConfined(): Promise<boolean> {
  return new Promise((resolve) => {
    // The name is an address already. With a lookup of its own Node does not load `node:dns`.
    const socket = createSocket({ type: "udp4", lookup: (name, _options, found) => found(null, name, 4) });
    socket.on("error", () => resolve(false));
    // Without an address, the datagram goes to this host.
    socket.send("", 9, (error) => {
      resolve((error as NodeJS.ErrnoException | null)?.code === "EPERM");
      socket.close();
    });
  });
}
