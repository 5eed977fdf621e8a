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
  /** Why a delivery without a signatureFault is not of this secret, where the headers show why. */
  readonly mismatch?: (secret: string, headers: IncomingHttpHeaders) => string | undefined;
};

/** What a git host can send in place of the header that is verified: one too old for it, or another than the hook's. */
const signing =
  "X-Hub-Signature-256 X-Hub-Signature X-Forgejo-Signature X-Gitea-Signature X-Gogs-Signature webhook-signature X-Gitlab-Token";

/** The fault of a header without a value, and the likely reason. Gitea sends the prefix alone where it has no secret. */
export function unsigned(fault: string, headers: IncomingHttpHeaders): string {
  const came = signing.split(" ").find((title) => !/^(sha\d+=)?$/.test(String(headers[title.toLowerCase()] ?? "")));
  if (came === undefined) return `${fault}. Set the hook's secret at the git host.`;
  return `${fault}, and ${came} came in its place. Update the git host, or correct hooks[].gitHost.`;
}

export function hmacSignature(title: string, prefix: "sha256=" | ""): Signature {
  const header = title.toLowerCase();
  // One signature: not two, which Node joins with ", ".
  const wellFormed = new RegExp(`^${prefix}([0-9a-f]{64})$`);
  return {
    signatures: [{ header, prefix, length: prefix.length + 64 }],
    signatureFault: (headers) => {
      const { [header]: value } = headers;
      if (value === undefined) return unsigned(`${title} is missing`, headers);
      if (value === "" || value === prefix) return unsigned(`${title} is empty`, headers);
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
