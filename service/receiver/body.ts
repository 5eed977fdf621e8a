/** Reads a request's body up to a limit. express.raw would read an oversized body to its end before it rejects it. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Resolves with the body, or with undefined one byte over the limit. Rejects if the sender closes the connection. */
export function readBody(req: IncomingMessage, limit: number, keep = true): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const declared = Number(req.headers["content-length"] ?? 16 << 10);
    let body: Buffer = Buffer.alloc(0);
    let bytes = 0;
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) return resolve(undefined);
      if (!keep) return;
      // One buffer: a list of chunks of one byte each would take a hundred times the body's size.
      if (bytes === chunk.length) body = chunk;
      else if (bytes > body.length) body = Buffer.concat([body], Math.min(limit, Math.max(declared, 2 * bytes)));
      if (body !== chunk) chunk.copy(body, bytes - chunk.length);
    });
    req.on("end", () => resolve(body.subarray(0, bytes)));
    req.on("error", reject);
  });
}

/**
 * Ends a written answer once the sender has finished, at most `limit` bytes or 2 s later. An immediate end would reset
 * the connection while nginx still writes the body, and nginx would answer 502 in place of the receiver's 401.
 */
export async function endGently(req: IncomingMessage, res: ServerResponse, limit: number): Promise<void> {
  const timer = setTimeout(() => res.end(), 2_000);
  await readBody(req, limit, false).catch(() => {});
  clearTimeout(timer);
  res.end();
}
