/** The HMAC check, pure: bytes in, yes or no out. It never throws on what a stranger sends. */
import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * One SHA-256 signature and nothing beside it. Node joins a repeated header with ", ", so two signatures don't fit;
 * neither does the empty one ("sha256=") that Gitea sends where no secret is set.
 */
const wellFormed = /^sha256=([0-9a-f]{64})$/;

export const isWellFormed = (header: string | undefined): header is string =>
  header !== undefined && wellFormed.test(header);

/** Whether `header` signs exactly these bytes with one of the secrets. All are tried, so that time tells nothing. */
export function verify(secrets: readonly string[], body: Buffer, header: string | undefined): boolean {
  const hex = header?.match(wellFormed)?.[1];
  if (hex === undefined) return false;
  const given = Buffer.from(hex, "hex");
  let matches = false;
  for (const secret of secrets) {
    // createHmac takes an empty key without a word, and anybody can sign with that.
    if (secret === "") continue;
    const expected = createHmac("sha256", secret).update(body).digest();
    if (timingSafeEqual(given, expected)) matches = true;
  }
  return matches;
}
