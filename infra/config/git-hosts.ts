/**
 * The shape of a signature, per git host. Cloudflare tests the shape, the receiver the signature itself: Cloudflare's
 * rules cannot read a body, and their HMAC function takes neither hex nor this header.
 */
import type { GitHost } from "./schema.ts";

/** One header that a signed delivery carries. */
export type SignatureShape = {
  /** In lower case: Cloudflare's rules find a header by this spelling only. */
  readonly header: string;
  /** Start of its value; empty where the value is the secret itself. */
  readonly prefix: string;
  /** Characters of the whole value; left out where it is not fixed. */
  readonly length?: number;
};

/** `sha256=` and 64 hexadecimal digits. */
const hmac = (header: string): SignatureShape => ({ header, prefix: "sha256=", length: 7 + 64 });

/** A delivery needs one of its git host's shapes. */
export const signatures: Readonly<Record<GitHost, readonly SignatureShape[]>> = {
  // GitHub uses this header for SHA-1; the prefix tells the two apart.
  bitbucket: [hmac("x-hub-signature")],
  // Forgejo and Gitea also send a bare digest in a header of their own. The receiver verifies this header, so that
  // Cloudflare and the receiver test the same value.
  forgejo: [hmac("x-hub-signature-256")],
  gitea: [hmac("x-hub-signature-256")],
  github: [hmac("x-hub-signature-256")],
  // GitLab 19 signs; older ones send the secret. Both send `webhook-id` and `webhook-timestamp`, which prove nothing.
  gitlab: [
    { header: "webhook-signature", prefix: "v1," },
    { header: "x-gitlab-token", prefix: "" },
  ],
};
