/** HMAC-SHA256 over a delivery's bytes, as `sha256=` and 64 hexadecimal digits. No header makes these functions throw. */
import { createHmac, timingSafeEqual } from "node:crypto";

/** One signature: not two, which Node joins with ", ", and not `sha256=` alone, which Gitea sends without a secret. */
const wellFormed = /^sha256=([0-9a-f]{64})$/;

export const isWellFormed = (header: string | undefined): header is string =>
  header !== undefined && wellFormed.test(header);

/** Whether `header` signs exactly these bytes with one of the secrets. It tries all, so that its time reveals nothing. */
export function verify(secrets: readonly string[], body: Buffer, header: string | undefined): boolean {
  const hex = header?.match(wellFormed)?.[1];
  if (hex === undefined) return false;
  const given = Buffer.from(hex, "hex");
  let matches = false;
  for (const secret of secrets) {
    // createHmac accepts an empty key without an error, and every sender can sign with that.
    if (secret === "") continue;
    const expected = createHmac("sha256", secret).update(body).digest();
    if (timingSafeEqual(given, expected)) matches = true;
  }
  return matches;
}
