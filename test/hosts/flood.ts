/**
 * The attackers of suite/flood.test.ts, in a process of their own with the lowest priority: they have computers of their
 * own, and must not delay the chain by using its cores, nor the clock of the test. Reads a Flood as JSON from standard
 * input, prints "ready" once all its connections have begun, and for forged requests at the end how often each status
 * came, by the layer that answered. Slow clients go on until the process is killed.
 */
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, createSecureContext } from "node:tls";
import type { ClientTls } from "./world.ts";

export type Flood = {
  readonly host: string;
  readonly port: number;
  /** The addresses to connect from, in turn. */
  readonly from: readonly string[];
  readonly tls: ClientTls;
  readonly connections: number;
  /** A request's head, without the empty line, and its body. */
  readonly head: string;
  readonly body: string;
  /**
   * Requests in all, each on a connection of its own; or which part arrives a byte a second; or whole requests whose
   * answers are never read.
   */
  readonly sends: number | "a slow head" | "a slow body" | "a slow read" | "nothing";
};

const { host, port, from, tls, connections, head, body, sends }: Flood = JSON.parse(
  await new Response(process.stdin as unknown as ReadableStream).text(),
);
const secureContext = createSecureContext(tls);
let turn = 0;
const open = (ready: (socket: Socket) => void): Socket => {
  const to = { host, port, localAddress: from[turn++ % from.length]!, secureContext, rejectUnauthorized: false };
  const socket = connect(to, () => ready(socket));
  return socket.on("error", () => {});
};

/** Resolves with the status and the layer of the answer, or with "none". */
const forged = (bytes: string): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    const socket = open((to) => to.write(bytes));
    socket.on("data", (part) => {
      text += part;
    });
    socket.on("close", () => {
      const servedBy = /\r\nx-served-by: (\S+)/i.exec(text)?.[1] ?? "unnamed";
      resolve(text === "" ? "none" : `${text.slice(9, 12)} ${servedBy}`);
    });
  });

/** Keeps one connection busy for ever: a new one follows the one that nginx closes. */
async function slow(): Promise<void> {
  const [at, rest] = sends === "a slow head" ? [`${head}\r\nx-slow: `, "x"] : [`${head}\r\n\r\n`, " "];
  for (;;) {
    await new Promise<void>((resolve) => {
      const begin = (socket: Socket) => {
        if (sends === "nothing") return;
        if (sends === "a slow read") {
          socket.pause().write(`${head}\r\n\r\n${body}`);
          return void setTimeout(() => socket.destroy(), 9_000);
        }
        socket.write(at);
        const timer = setInterval(() => socket.write(rest), 1_000);
        socket.on("close", () => clearInterval(timer));
      };
      open(begin)
        .resume()
        .on("close", () => resolve());
    });
    await sleep(100);
  }
}

if (typeof sends === "number") {
  const answers: Record<string, number> = {};
  let left = sends;
  const lane = async () => {
    while (left-- > 0) {
      const answer = await forged(`${head}\r\n\r\n${body}`);
      answers[answer] = (answers[answer] ?? 0) + 1;
    }
  };
  console.log("ready");
  await Promise.all(Array.from({ length: connections }, lane));
  console.log(JSON.stringify(answers));
} else {
  for (let i = 0; i < connections; i++) void slow();
  console.log("ready");
}
