/** Sends prepared requests over a few kept connections, each its next request when the answer has arrived. */
import { connect } from "node:net";

type Load = {
  /** Answers per second. */
  readonly rate: number;
  readonly statuses: Readonly<Record<string, number>>;
};

type Shape = {
  readonly port: number;
  readonly connections: number;
  /** The load ends after `ms`, or after `most` answers. */
  readonly ms: number;
  readonly most: number;
};

/** The answer at the start of `text`, or undefined while it is incomplete. Every server states the length of its body. */
function complete(text: string): { status: string; length: number; close: boolean } | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = text.slice(0, end).toLowerCase();
  const length = end + 4 + Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
  if (text.length < length) return undefined;
  return { status: text.slice(9, 12), length, close: head.includes("\r\nconnection: close") };
}

/** A connection that the server closes is opened anew, and its request without an answer is sent again. */
export function load({ port, connections, ms, most }: Shape, next: () => Buffer): Promise<Load> {
  const statuses: Record<string, number> = {};
  const started = performance.now();
  const until = started + ms;
  let sent = 0;
  let answers = 0;
  let open = connections;
  return new Promise((resolve, reject) => {
    const run = (waiting?: Buffer) => {
      let request = waiting;
      let text = "";
      let over = false;
      const send = () => {
        if (sent >= most || performance.now() >= until) {
          over = true;
          return void socket.destroy();
        }
        request = next();
        sent++;
        socket.write(request);
      };
      const socket = connect({ port, host: "127.0.0.1", noDelay: true }, () => {
        if (request === undefined) send();
        else socket.write(request);
      });
      socket.on("data", (bytes) => {
        text += bytes.toString("latin1");
        const answer = complete(text);
        if (!answer) return;
        text = text.slice(answer.length);
        request = undefined;
        answers++;
        statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
        if (answer.close) socket.end();
        else send();
      });
      socket.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code !== "ECONNRESET" && error.code !== "EPIPE") reject(error);
      });
      socket.on("close", () => {
        if (!over && performance.now() < until && sent < most) return run(request);
        if (--open === 0) resolve({ rate: (1000 * answers) / (performance.now() - started), statuses });
      });
    };
    for (let i = 0; i < connections; i++) run();
  });
}
