/** GitLab 19 signs. Older versions send the secret token itself: whatever reads one delivery can send others. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { Signature } from "./hmac-signature.ts";
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
    return "webhook-signature and X-Gitlab-Token are missing. Set the hook's signing token at the git host.";
  },
  verify: (secret, body, headers) =>
    standardSignature.verify(secret, body, headers) || isToken(secret, String(headers["x-gitlab-token"] ?? "")),
  sign: (secret, ...signed) =>
    isMeantAsKey(secret) ? standardSignature.sign(secret, ...signed) : { "x-gitlab-token": secret },
};
