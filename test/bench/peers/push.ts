/** What every server of the comparison does with a delivery: GitHub's signature, the event, and the receiver's own spool. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { openSpool } from "../../../service/receiver/spool.ts";

const [, , portText, folder = "", secret = ""] = process.argv;

export const port = Number(portText);
export const path = "/webhook/site";
export const host = "127.0.0.1";
export const longestBody = 5 << 20;
export { secret };

const shape = /^sha256=[0-9a-f]{64}$/;
type Header = string | string[] | undefined;

export const wellFormed = (signature: Header): signature is string =>
  typeof signature === "string" && shape.test(signature);

export function signed(body: Buffer, signature: string): boolean {
  const expected = createHmac("sha256", secret).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(signature.slice("sha256=".length), "hex"));
}

const spool = openSpool(folder, ["site"], Number.POSITIVE_INFINITY);

type Payload = { readonly ref: string; readonly before: string; readonly after: string };

export async function store(delivery: Header, { ref, before, after }: Payload): Promise<void> {
  const received = new Date().toISOString();
  await spool({ delivery: String(delivery), hook: "site", event: "push", ref, before, after, received });
}

/** Status and text of the answer to a delivery whose signature matches. */
export async function decide(event: Header, delivery: Header, body: Buffer): Promise<[status: number, text: string]> {
  const payload = JSON.parse(body.toString()) as Payload;
  if (event !== "push" || payload.ref !== "refs/heads/main") return [200, '{"status":"ignored"}\n'];
  await store(delivery, payload);
  return [202, '{"status":"accepted"}\n'];
}

export const rejected = '{"status":"Unauthorized"}\n';
