/** Standard Webhooks 1.0.0. The timestamp is signed, so a captured delivery is worthless after five minutes. */
import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isHmac, type Signature, unsigned } from "./hmac-signature.ts";

const keyPrefix = "whsec_";

/** A key of 24 to 64 bytes in base64: other text that begins with whsec_ is a mistake. */
export const isKey = (secret: string): boolean => {
  const bytes = keyOf(secret).length;
  return secret === writtenKey(keyOf(secret)) && bytes >= 24 && bytes <= 64;
};
export const isMeantAsKey = (secret: string): boolean => secret.startsWith(keyPrefix);
export const writtenKey = (bytes: Buffer): string => `${keyPrefix}${bytes.toString("base64")}`;
const keyOf = (secret: string): Buffer => Buffer.from(secret.slice(keyPrefix.length), "base64");

/** Seconds between the sender's clock and this one, in either direction. */
const tolerance = 300;

const one = "v1,[A-Za-z0-9+/]{43}=";
/** Several signatures where the sender rotates its key; those of other versions do not count. */
const wellFormed = new RegExp(`^(\\S+ )*${one}( \\S+)*$`);

const read = (headers: IncomingHttpHeaders) => ({
  id: String(headers["webhook-id"] ?? ""),
  timestamp: String(headers["webhook-timestamp"] ?? ""),
  signature: headers["webhook-signature"] as string | undefined,
});

function signatureFault(headers: IncomingHttpHeaders): string | undefined {
  const { id, timestamp, signature } = read(headers);
  if (!signature) return unsigned("webhook-signature is missing", headers);
  if (!wellFormed.test(signature)) return "webhook-signature holds no v1,<32 bytes in base64>";
  if (id === "" || !/^[0-9]{1,12}$/.test(timestamp)) return "webhook-id or webhook-timestamp is missing";
  const seconds = Math.round(Date.now() / 1000) - Number(timestamp);
  if (Math.abs(seconds) <= tolerance) return undefined;
  const off = seconds > 0 ? `${seconds} s old` : `${-seconds} s ahead of this host's clock`;
  return `the delivery is ${off}, more than ${tolerance}: it is a replay, or a clock is wrong`;
}

export const standardSignature: Signature = {
  signatures: [{ header: "webhook-signature", prefix: "v1" }],
  signatureFault,
  verify(secret, body, headers) {
    if (!isKey(secret) || signatureFault(headers) !== undefined) return false;
    const { id, timestamp, signature = "" } = read(headers);
    return signature
      .split(" ")
      .filter((each) => each.startsWith("v1,"))
      .some((each) => isHmac(Buffer.from(each.slice(3), "base64"), keyOf(secret), [`${id}.${timestamp}.`, body]));
  },
  sign(key, id, body) {
    const seconds = Math.floor(Date.now() / 1000);
    const signature = createHmac("sha256", keyOf(key)).update(`${id}.${seconds}.${body}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": String(seconds), "webhook-signature": `v1,${signature}` };
  },
};
