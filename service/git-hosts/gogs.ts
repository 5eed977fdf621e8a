/** Gogs: self-hosted. Its payload and its headers of event and delivery are GitHub's; its signature is its own. */
import type { GitHost } from "./git-host.ts";
import { gogsWebhooks } from "./gitea-webhooks.ts";
import { githubLike, pingBody, pingHeaders } from "./github-like.ts";
import { hmacSignature } from "./hmac-signature.ts";

const { shape, signed, ...signature } = hmacSignature("X-Gogs-Signature", "");

export const gogs: GitHost = {
  ...githubLike,
  name: "gogs",
  mark: "x-gogs-event",
  webhookPage: "Settings > Webhooks > Add a new webhook > Gogs",
  signatures: [shape],
  dialect: { ...githubLike.dialect, ...signature },
  ping: (secret, id) => ({
    headers: { ...pingHeaders(id), "x-gogs-event": "ping", ...signed(secret, pingBody) },
    body: pingBody,
  }),
  webhooks: gogsWebhooks,
};
