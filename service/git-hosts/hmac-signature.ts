/** HMAC-SHA256 over a delivery's bytes, in hexadecimal digits. No header makes these functions throw. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/** A header of a signed delivery. Cloudflare's rules, which cannot read a body, test its shape; the receiver verifies it. */
export type SignatureShape = {
  readonly header: string; // in lower case: Cloudflare's rules find a header by this spelling only
  readonly prefix: string; // of the value
  readonly length?: number; // of the whole value; absent where it varies
};

export type Signature = {
  readonly signatures: readonly SignatureShape[]; // a delivery carries at least one of them
  /** Why the headers hold no signature, found without hashing; undefined where they hold one. */
  readonly signatureFault: (headers: IncomingHttpHeaders) => string | undefined;
  /** Whether the headers sign exactly these bytes with this secret. It never throws. */
  readonly verify: (secret: string, body: Buffer, headers: IncomingHttpHeaders) => boolean;
  /** The headers that sign a body which pushgate itself sends. */
  readonly sign: (secret: string, id: string, body: string) => Readonly<Record<string, string>>;
};

export function hmacSignature(title: string, prefix: "sha256=" | ""): Signature {
  const header = title.toLowerCase();
  // One signature: not two, which Node joins with ", ", and not `sha256=` alone, which Gitea sends without a secret.
  const wellFormed = new RegExp(`^${prefix}([0-9a-f]{64})$`);
  return {
    signatures: [{ header, prefix, length: prefix.length + 64 }],
    signatureFault: ({ [header]: value }) => {
      if (value === undefined) return `${title} is missing. Set the hook's secret at the git host.`;
      return wellFormed.test(String(value))
        ? undefined
        : `${title} is not ${prefix && `${prefix} and `}64 hexadecimal digits`;
    },
    verify: (secret, body, { [header]: value }) => {
      const hex = String(value).match(wellFormed)?.[1];
      return hex !== undefined && isHmac(Buffer.from(hex, "hex"), secret, [body]);
    },
    sign: (secret, _id, body) => ({ [header]: prefix + createHmac("sha256", secret).update(body).digest("hex") }),
  };
}

/** Whether `given` is the HMAC of the parts with this key. Its time does not depend on how much of it is right. */
export function isHmac(given: Buffer, key: string | Buffer, parts: readonly (string | Buffer)[]): boolean {
  // createHmac accepts an empty key without an error, and every sender can sign with that.
  if (key.length === 0) return false;
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  const expected = hmac.digest();
  return given.length === expected.length && timingSafeEqual(given, expected);
}
