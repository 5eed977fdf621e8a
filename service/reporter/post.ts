/**
 * One POST over TLS. The server is not trusted: it has a bound of time and of bytes, and a redirect is an answer like
 * any other, so that no header goes elsewhere.
 */
import type { IncomingHttpHeaders } from "node:http";
import { request } from "node:https";

export type Post = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Its beginning. */
  readonly text: string;
};

const mostBytes = 16 << 10;

/** Rejects without an answer. `authorities`: PEM that is trusted instead of the program's own. */
export function post({ url, headers, body }: Post, seconds: number, authorities?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: "POST",
      agent: false,
      ...(authorities !== undefined && { ca: authorities }),
      headers: {
        ...headers,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "user-agent": "pushgate",
      },
    });
    // Of the whole exchange: a socket's own time-out begins anew with each byte.
    const late = new Error(`no answer within ${seconds} s`);
    const timer = setTimeout(() => sent.destroy(late), seconds * 1000);
    const fail = (error: Error) => {
      clearTimeout(timer);
      reject(error);
    };
    sent.on("error", fail);
    sent.once("response", (answer) => {
      const parts: Buffer[] = [];
      let size = 0;
      const end = () => {
        clearTimeout(timer);
        sent.destroy();
        const text = Buffer.concat(parts).subarray(0, mostBytes).toString();
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text });
      };
      answer.on("data", (part: Buffer) => {
        parts.push(part);
        size += part.length;
        if (size >= mostBytes) end();
      });
      answer.once("end", end);
      answer.on("error", fail);
    });
    sent.end(body);
  });
}
