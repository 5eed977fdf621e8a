/** Reads a body of at most `limit` bytes. express.raw would read an oversized body to its end before it rejects it. */
import type { IncomingMessage } from "node:http";
import type { Payload } from "../git-hosts/index.ts";
import { Rejection } from "./answer.ts";

/** Fails with a 413 one byte over the limit, and with the connection's error where the sender leaves. */
export function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    req.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= limit) chunks.push(chunk);
      else reject(new Rejection(413, `the body is larger than ${limit} bytes`));
    });
    req.once("end", () => resolve(Buffer.concat(chunks, bytes)));
    req.once("error", reject).once("close", reject);
  });
}

/** The payload, or undefined where the body is not a JSON object. */
export function parsePayload(body: Buffer): Payload | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Payload) : undefined;
  } catch {
    return undefined;
  }
}
