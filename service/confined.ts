/** What builder and reporter look at before they use the network: `nft flush ruleset` may have removed the egress table. */
import { createSocket } from "node:dgram";

/** Whether the egress table limits this account: it has the kernel reject all datagrams but those to name servers. */
export function isConfined(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4").on("error", () => resolve(false));
    // Without an address, the datagram goes to this host.
    socket.send("", 9, (error) => {
      resolve((error as NodeJS.ErrnoException | null)?.code === "EPERM");
      socket.close();
    });
  });
}
