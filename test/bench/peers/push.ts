/** What each server beside the receiver does with a delivery: GitHub's signature, the event, and the receiver's own spool. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { openSpool } from "../../../service/receiver/spool.ts";

const [, , folder = "", secret = ""] = process.argv;

export const passed = { fd: 3 }; // the socket, by the number that systemd would give it
export const path = "/webhook/site";
export const longestBody = 5 << 20;
export const rejected = '{"status":"Unauthorized"}\n';

type Header = string | string[] | undefined;

export function signed(body: Buffer, signature: Header): boolean {
  if (!/^sha256=[0-9a-f]{64}$/.test(String(signature))) return false;
  const expected = createHmac("sha256", secret).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(String(signature).slice("sha256=".length), "hex"));
}

const spool = openSpool(folder, ["site"], Number.POSITIVE_INFINITY);

/** Status and text of the answer to a delivery whose signature matches. */
export async function decide(event: Header, delivery: Header, body: Buffer): Promise<[status: number, text: string]> {
  const { ref, before, after } = JSON.parse(body.toString()) as Record<"ref" | "before" | "after", string>;
  if (event !== "push" || ref !== "refs/heads/main") return [200, '{"status":"ignored"}\n'];
  const received = new Date().toISOString();
  await spool({ delivery: String(delivery), hook: "site", event: "push", ref, before, after, received });
  return [202, '{"status":"accepted"}\n'];
}
