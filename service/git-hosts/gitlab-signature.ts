/** GitLab 19 signs. Older versions send the secret token itself: whatever reads one delivery can send others. */
import { createHash, timingSafeEqual } from "node:crypto";
import { type Signature, unsigned } from "./hmac-signature.ts";
import { isMeantAsKey, standardSignature } from "./standard-signature.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest();

/** Compares digests, which have one length, so that its time reveals nothing. A key is no token. */
const isToken = (secret: string, given: string): boolean =>
  secret !== "" && !isMeantAsKey(secret) && timingSafeEqual(sha256(secret), sha256(given));

export const gitlabSignature: Signature = {
  signatures: [...standardSignature.signatures, { header: "x-gitlab-token", prefix: "" }],
  signatureFault(headers) {
    if (headers["x-gitlab-token"]) return undefined;
    if (headers["webhook-signature"] !== undefined) return standardSignature.signatureFault(headers);
    return unsigned("webhook-signature or X-Gitlab-Token is missing", headers);
  },
  mismatch(secret, headers) {
    const { "webhook-signature": signature, "x-gitlab-token": token } = headers;
    const entered = (kind: string) => `and the hook's secret is a ${kind}. Enter it as the ${kind} at the git host`;
    if (isMeantAsKey(secret))
      return signature
        ? standardSignature.signatureFault(headers)
        : `X-Gitlab-Token came without webhook-signature, ${entered("signing token")}. GitLab before 19 has none: see docs/operating.md.`;
    return token
      ? "X-Gitlab-Token is not the hook's secret. Enter the one that npx pushgate hook prints."
      : `webhook-signature came without X-Gitlab-Token, ${entered("secret token")}.`;
  },
  verify: (secret, body, headers) =>
    standardSignature.verify(secret, body, headers) || isToken(secret, String(headers["x-gitlab-token"] ?? "")),
  sign: (secret, ...signed) =>
    isMeantAsKey(secret) ? standardSignature.sign(secret, ...signed) : { "x-gitlab-token": secret },
};
