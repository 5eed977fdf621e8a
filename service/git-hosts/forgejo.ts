/** Forgejo: self-hosted, so it publishes no source ranges; it signs as GitHub does. */
import type { GitHost } from "./git-host.ts";
import { giteaStatus } from "./gitea-status.ts";
import { forgejoWebhooks } from "./gitea-webhooks.ts";
import { githubLike, marked } from "./github-like.ts";

export const forgejo: GitHost = {
  name: "forgejo",
  mark: "x-forgejo-event",
  webhookPage: "Settings > Webhooks > Add webhook > Forgejo",
  domains: ["codeberg.org"],
  ...githubLike,
  ping: marked("x-forgejo-event"),
  status: giteaStatus,
  webhooks: forgejoWebhooks,
};
