/**
 * One request. The server is not trusted: time and bytes are bounded, a redirect is an answer like any other, and each end
 * of a request ends it: Node emits neither an answer nor an error for 101.
 */
import http, { type IncomingHttpHeaders } from "node:http";
import https from "node:https";

/** `body`: JSON. A POST where there is one and no `method`. */
export type Outgoing = Readonly<{
  url: string;
  method?: string;
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
}>;
export type Answer = Readonly<{ status: number; headers: IncomingHttpHeaders; text: string }>;
/** `keeps`: whether the connection is kept for a next request. */
export type Bounds = Readonly<{
  seconds: number;
  bytes?: number;
  signal?: AbortSignal | undefined;
  keeps?: boolean;
  /** Gets the body of a 200, of which there is then no text. */
  into?: ((part: Buffer) => void) | undefined;
}>;

/** For the API of Cloudflare or of a git host: a list has less than one MiB. */
export const ofApi = { seconds: 20, bytes: 16 << 20, keeps: true };

/** Rejects without an answer; the message is never empty. */
export function exchange(outgoing: Outgoing, bounds: Bounds): Promise<Answer> {
  const { url, body, method = body === undefined ? "GET" : "POST", headers } = outgoing;
  const { seconds, bytes = 16 << 10, signal, keeps = false, into } = bounds;
  return new Promise((resolve, reject) => {
    const sent = (url.startsWith("http:") ? http : https).request(url, {
      // Debian 12's Node would try the first address alone, for as long as the kernel does: an IPv6 that leads nowhere.
      ...{ method, signal, autoSelectFamily: true },
      headers: {
        ...headers,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(!keeps && { connection: "close" }),
        "user-agent": "pushgate",
      },
    });
    // A socket's own time-out would begin anew with each byte.
    const late = Object.assign(new Error(`no answer within ${seconds} s`), { code: "ETIMEDOUT" });
    setTimeout(() => sent.destroy(late), seconds * 1000).unref();
    const closed = () => reject(new Error("the server closed the connection without an answer"));
    sent.once("close", closed).on("error", (error: NodeJS.ErrnoException) => {
      // The server may close a connection that was kept while the request is on its way.
      const isStale = sent.reusedSocket && error.code === "ECONNRESET" && method === "GET" && !signal?.aborted;
      if (isStale) return resolve(exchange(outgoing, bounds));
      // Where several addresses failed.
      error.message ||= String(error.code);
      reject(error);
    });
    sent.once("response", (answer) => {
      sent.off("close", closed);
      const parts: Buffer[] = [];
      let size = 0;
      const end = () => {
        const text = Buffer.concat(parts).toString();
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text });
      };
      answer.on("data", (part: Buffer) => {
        const kept = part.subarray(0, Math.max(0, bytes - size));
        if (into && answer.statusCode === 200) into(kept);
        else parts.push(kept);
        size += part.length;
        if (size < bytes) return;
        end();
        sent.destroy();
      });
      answer.once("end", end);
      answer.on("error", reject);
    });
    sent.end(body);
  });
}
