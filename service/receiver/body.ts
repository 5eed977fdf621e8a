/**
 * Reading a body of at most `limit` bytes, and reading off what nobody wants. Not express.raw: it answers an oversized
 * body only after it has read all of it, so that a sender who never ends holds its place until the timeout.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Refusal } from "./refusal.ts";

/** The sender left before its request was whole: there is nobody to answer. */
export class Aborted extends Error {}

/** Rejects with Refusal 413 one byte over the limit, with Aborted, or with what the connection failed with. */
export function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (act: () => void) => {
      req.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onError);
      act();
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) settle(() => reject(new Refusal(413, `the body is larger than ${limit} bytes`)));
      else chunks.push(chunk);
    };
    const onEnd = () => settle(() => resolve(Buffer.concat(chunks, bytes)));
    const onClose = () => settle(() => reject(new Aborted()));
    const onError = (error: Error) => settle(() => reject(error instanceof Refusal ? error : new Aborted()));
    if (req.destroyed && !req.complete) reject(new Aborted());
    else req.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onError);
  });
}

/** Milliseconds a sender gets to finish a body that is already answered. */
const patience = 2_000;

/**
 * Ends an answer that is already written, once the sender is done, at most `limit` bytes or two seconds later. Closing
 * at once would send a reset while nginx still writes the body, and nginx then says 502 in place of our 401.
 */
export function endGently(req: IncomingMessage, res: ServerResponse, limit: number): void {
  if (req.complete) {
    res.end();
    return;
  }
  let bytes = 0;
  const end = () => {
    clearTimeout(timer);
    req.off("data", onData).off("end", end).off("error", end).off("close", end).pause();
    res.end();
  };
  const onData = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limit) end();
  };
  const timer = setTimeout(end, patience);
  req.on("data", onData).on("end", end).on("error", end).on("close", end).resume();
}
