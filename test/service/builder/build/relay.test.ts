/** What passes the relay, and what does not: without its words, too. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import * as usual from "../../../../service/builder/build/relay.ts";
import { deadFirst } from "../../dead-address.ts";
import { moduleWithout } from "../../module-without.ts";
import { folder, onFolder } from "../../own-folder.ts";

onFolder();
let far: Server;
let port: number;
let relay: Awaited<ReturnType<typeof usual.openRelay>>;
const at = () => join(folder, "relay");
async function opens({ openRelay }: typeof usual): Promise<void> {
  relay = await openRelay(at(), new Set([`127.0.0.1:${port}`, `localhost:${port}`, "127.0.0.1:1"]));
}
async function without(words: string, instead: string): Promise<void> {
  relay.close();
  await opens(await moduleWithout("builder/build/relay.ts", folder, [[words, instead]]));
}
beforeEach(async () => {
  far = createServer().listen(0, "127.0.0.1");
  far.on("connection", (socket) => socket.on("error", () => {}));
  await once(far, "listening");
  port = (far.address() as AddressInfo).port;
  await opens(usual);
});
afterEach(() => {
  relay.close();
  far.close();
});
/** A connection that begins so, and its end. */
function near(text: string) {
  const socket = connect(at()).on("error", () => {});
  socket.write(text);
  return { socket, closed: new Promise<string>((resolve) => socket.once("close", () => resolve(""))) };
}

test("bytes pass both ways to a host that the fetch needs, and to no other; to each without the check", async () => {
  far.on("connection", (socket) => socket.pipe(socket));
  /** What comes back first. */
  const back = async (text: string) => {
    const { socket, closed } = near(text);
    const first = await Promise.race([once(socket, "data"), closed]);
    socket.destroy();
    return [first.toString(), relay.said()];
  };
  const [own, other] = [`127.0.0.1:${port}`, `LOCALHOST:${port}`];
  expect(await back(`${own}\nhello`)).toEqual(["hello", ""]);
  for (const to of [other, "", `${own} `, "\u001b[1m"])
    expect(await back(`${to}\nhello`)).toEqual(["", `${to.replace("\u001b", "?")} is no host that this fetch needs.`]);
  expect((await back(own))[0]).toBe(""); // without the line's end
  const refused = "127.0.0.1:1 is not reached: connect ECONNREFUSED 127.0.0.1:1.";
  expect(await back("127.0.0.1:1\nhello")).toEqual(["", refused]);
  deadFirst();
  expect(await back(`localhost:${port}\nhello`)).toEqual(["hello", refused]);
  await without("!admitted.has(to)", "false");
  expect(await back(`${other}\nhello`)).toEqual(["hello", ""]);
});

test("of what a host sends, a connection that is not read takes little; all without the pipeline", async () => {
  const begin = async () => {
    near(`127.0.0.1:${port}\n`).socket.pause();
    const [socket] = await once(far, "connection");
    socket.write(Buffer.alloc(64 << 20));
    return socket as Socket;
  };
  const slow = await begin();
  await sleep(500);
  expect(slow.writableLength).toBeGreaterThan(0);
  await without("(near, far, near,", "(near, far.on('data', (part) => near.write(part)),");
  const fast = await begin();
  await expect.poll(() => fast.writableLength, { timeout: 10_000 }).toBe(0);
});

test("it ends with all its connections, of which it has 256 at once", async () => {
  const open = () => new Promise((resolve) => far.getConnections((_, count) => resolve(count)));
  far.on("connection", (socket) => socket.resume());
  const all = Array.from({ length: 257 }, () => near(`127.0.0.1:${port}\n`).closed);
  await Promise.race(all);
  await expect.poll(open).toBe(256);
  relay.close();
  await Promise.all(all);
  await expect.poll(open).toBe(0);
  await expect(once(connect(at()), "connect")).rejects.toThrow("ENOENT");
});
