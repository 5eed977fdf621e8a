/**
 * What a signature looks like, per git host: the edge tests this shape, the receiver the signature itself. The edge
 * can't do more: bodies are closed to its rules, and its own HMAC function takes neither hex nor this header.
 */
import type { GitHost } from "./schema.ts";

/** One header that a signed delivery carries. */
export type SignatureShape = {
  /** Lower case: the edge looks a header up by this spelling only, and any other is absent. */
  readonly header: string;
  /** What its value begins with; empty where the value is the secret itself. */
  readonly prefix: string;
  /** Characters of the whole value; left out where it is not fixed. */
  readonly length?: number;
};

/** `sha256=` and 64 hexadecimal digits. */
const hmac = (header: string): SignatureShape => ({ header, prefix: "sha256=", length: 7 + 64 });

/** Any one of a git host's shapes will do. */
export const signatures: Readonly<Record<GitHost, readonly SignatureShape[]>> = {
  // The name GitHub uses for SHA-1: the prefix decides.
  bitbucket: [hmac("x-hub-signature")],
  // Forgejo and Gitea also send a bare digest in a header of their own. This one proves the same, and is the one the
  // receiver verifies, so that what passes here and what passes there is one header's value.
  forgejo: [hmac("x-hub-signature-256")],
  gitea: [hmac("x-hub-signature-256")],
  github: [hmac("x-hub-signature-256")],
  // GitLab 19 signs; older ones send the secret. `webhook-id` and `webhook-timestamp` come either way and mean nothing.
  gitlab: [
    { header: "webhook-signature", prefix: "v1," },
    { header: "x-gitlab-token", prefix: "" },
  ],
};
