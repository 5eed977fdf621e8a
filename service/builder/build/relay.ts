/**
 * The fetcher's way out, as its unit has no network. A connection begins with a line, "host:port", and is connected to that
 * host where the fetch needs it. TLS is the fetcher's: what passes here is not read.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";
import { printable } from "../../printable.ts";

const most = 256; // connections at once: npm has 15 to a host

/** Listens at `path`, for every account that gets there. `said`: why the last host that was not reached was not. */
export async function openRelay(path: string, admitted: ReadonlySet<string>) {
  const open = new Set<Socket>();
  let said = "";
  const server = createServer((near) => {
    open.add(near);
    near.on("error", () => {}).once("close", () => open.delete(near));
    near.once("data", (first: Buffer) => {
      const end = Math.max(first.indexOf("\n"), 0);
      const to = first.toString("latin1", 0, end);
      if (!admitted.has(to)) {
        said = `${printable(to, 300)} is no host that this fetch needs.`;
        return void near.destroy();
      }
      near.pause().unshift(first.subarray(end + 1));
      const [host, port] = to.split(":");
      // As for `exchange`: an IPv6 address may lead nowhere.
      const far = connect({ host: host!, port: Number(port), autoSelectFamily: true });
      far.on("error", ({ message, code }: NodeJS.ErrnoException) => {
        if (!near.destroyed) said = `${to} is not reached: ${message || code}.`;
      });
      pipeline(near, far, near, () => {});
    });
  });
  server.maxConnections = most;
  await once(server.listen({ path, writableAll: true }), "listening");
  const close = () => {
    server.close();
    for (const near of open) near.destroy();
  };
  return { said: () => said, close };
}
