/** HMAC-SHA256 over a delivery's bytes, in 64 hexadecimal digits. No header makes these functions throw. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Dialect, SignatureShape } from "./git-host.ts";

type Signature = {
  readonly shape: SignatureShape;
  /** The header that signs a body which pushgate itself sends. */
  readonly signed: (secret: string, body: string) => Readonly<Record<string, string>>;
} & Pick<Dialect, "signatureFault" | "verify">;

/** `title`: the header as the git host spells it. `prefix`: what comes before the digits. */
export function hmacSignature(title: string, prefix: "sha256=" | ""): Signature {
  const header = title.toLowerCase();
  // One signature: not two, which Node joins with ", ", and not `sha256=` alone, which Gitea sends without a secret.
  const wellFormed = new RegExp(`^${prefix}([0-9a-f]{64})$`);
  return {
    shape: { header, prefix, length: prefix.length + 64 },
    signed: (secret, body) => ({ [header]: `${prefix}${createHmac("sha256", secret).update(body).digest("hex")}` }),
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
