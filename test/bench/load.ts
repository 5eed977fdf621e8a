/** Sends prepared requests over a few kept connections, each its next request when the answer has arrived. */
import type { Socket } from "node:net";

export type Load = {
  /** Answers per second. */
  readonly rate: number;
  /** Milliseconds from a request's first byte, or from the start of its connection, to the answer's last byte. */
  readonly p50: number;
  readonly p99: number;
  readonly statuses: Readonly<Record<string, number>>;
};

/** Opens a connection, and calls `ready` when a request can be written. */
export type Dial = (ready: () => void) => Socket;

export type Shape = {
  readonly dial: Dial;
  readonly connections: number;
  /** The load ends after `ms`, or after `most` answers. */
  readonly ms: number;
  readonly most: number;
};

/** The bytes of an answer at the start of `text`, or undefined while it is incomplete. */
function complete(text: string): { status: string; length: number; close: boolean } | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = text.slice(0, end).toLowerCase();
  const declared = /\r\ncontent-length: *(\d+)/.exec(head)?.[1];
  let length = end + 4 + Number(declared ?? 0);
  if (declared === undefined && head.includes("\r\ntransfer-encoding: chunked")) {
    const last = text.indexOf("0\r\n\r\n", end + 4);
    if (last < 0) return undefined;
    length = last + 5;
  }
  if (text.length < length) return undefined;
  return { status: text.slice(9, 12), length, close: head.includes("\r\nconnection: close") };
}

/** A connection that the server closes is opened anew, and its request without an answer is sent again. */
export function load({ dial, connections, ms, most }: Shape, next: () => Buffer): Promise<Load> {
  const times: number[] = [];
  const statuses: Record<string, number> = {};
  const started = performance.now();
  const until = started + ms;
  let sent = 0;
  let open = connections;
  return new Promise((resolve, reject) => {
    const finish = () => {
      const seconds = (performance.now() - started) / 1000;
      times.sort((a, b) => a - b);
      const at = (share: number) => times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? 0;
      resolve({ rate: times.length / seconds, p50: at(0.5), p99: at(0.99), statuses });
    };
    const run = (waiting?: Buffer) => {
      let request = waiting;
      let text = "";
      const opened = performance.now();
      let began = opened;
      let over = false;
      const send = () => {
        if (sent >= most || performance.now() >= until) {
          over = true;
          return void socket.destroy();
        }
        request = next();
        sent++;
        began = performance.now();
        socket.write(request);
      };
      const socket = dial(() => {
        if (request === undefined) send();
        else socket.write(request);
        began = opened;
      });
      socket.on("data", (bytes) => {
        text = text === "" ? bytes.toString("latin1") : text + bytes.toString("latin1");
        const answer = complete(text);
        if (!answer) return;
        text = text.slice(answer.length);
        request = undefined;
        times.push(performance.now() - began);
        statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
        if (answer.close) socket.end();
        else send();
      });
      socket.on("error", (error: NodeJS.ErrnoException) => {
        if (error.code !== "ECONNRESET" && error.code !== "EPIPE") reject(error);
      });
      socket.on("close", () => {
        if (!over && performance.now() < until && sent < most) return run(request);
        if (--open === 0) finish();
      });
    };
    for (let i = 0; i < connections; i++) run();
  });
}
