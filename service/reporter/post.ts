/** One POST over TLS. The server is not trusted: time and bytes are bounded, and a redirect is an answer like any other. */
import type { IncomingHttpHeaders } from "node:http";
import { request } from "node:https";

export type Post = Readonly<{ url: string; headers: Readonly<Record<string, string>>; body: string }>;
/** `text`: the beginning of the body. */
export type Answer = Readonly<{ status: number; headers: IncomingHttpHeaders; text: string }>;

const mostBytes = 16 << 10;

/** Rejects without an answer. `authorities`: PEM that is trusted instead of the program's own. */
export function post({ url, headers, body }: Post, seconds: number, authorities?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: "POST",
      agent: false,
      ca: authorities,
      headers: { ...headers, "content-type": "application/json", "user-agent": "pushgate" },
    });
    // A socket's own time-out would begin anew with each byte.
    const late = new Error(`no answer within ${seconds} s`);
    setTimeout(() => sent.destroy(late), seconds * 1000).unref();
    sent.on("error", reject);
    sent.once("response", (answer) => {
      const parts: Buffer[] = [];
      let size = 0;
      const end = () => {
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
      answer.on("error", reject);
    });
    sent.end(body);
  });
}
