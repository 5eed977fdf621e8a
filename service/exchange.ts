/**
 * One request over TLS. The server is not trusted: time and bytes are bounded, a redirect is an answer like any other, and
 * each end of a request ends it: Node emits neither an answer nor an error for 101.
 */
import type { IncomingHttpHeaders } from "node:http";
import { request } from "node:https";

export type Outgoing = Readonly<{ url: string; headers: Readonly<Record<string, string>>; body?: string }>;
/** `text`: the beginning of the body. */
export type Answer = Readonly<{ status: number; headers: IncomingHttpHeaders; text: string }>;

const mostBytes = 16 << 10;

/** A POST where there is a body, of JSON. Rejects without an answer. `ca`: PEM that is trusted instead of the program's own. */
export function exchange({ url, headers, body }: Outgoing, seconds: number, ca?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: body === undefined ? "GET" : "POST",
      ca,
      // Debian 12's Node would try the first address alone, for as long as the kernel does: an IPv6 that leads nowhere.
      ...{ autoSelectFamily: true },
      headers: {
        ...headers,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...{ connection: "close", "user-agent": "pushgate" },
      },
    });
    // A socket's own time-out would begin anew with each byte.
    const late = Object.assign(new Error(`no answer within ${seconds} s`), { code: "ETIMEDOUT" });
    setTimeout(() => sent.destroy(late), seconds * 1000).unref();
    const closed = () => reject(new Error("the server closed the connection without an answer"));
    sent.on("error", reject).once("close", closed);
    sent.once("response", (answer) => {
      sent.off("close", closed);
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
