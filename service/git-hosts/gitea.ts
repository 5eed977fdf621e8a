/** Gitea: self-hosted, so it publishes no source ranges; it signs as GitHub does. */
import type { GitHost } from "./git-host.ts";
import { giteaStatus } from "./gitea-status.ts";
import { giteaWebhooks } from "./gitea-webhooks.ts";
import { githubLike, marked } from "./github-like.ts";

export const gitea: GitHost = {
  name: "gitea",
  mark: "x-gitea-event",
  webhookPage: "Settings > Webhooks > Add webhook > Gitea",
  ...githubLike,
  ping: marked("x-gitea-event"),
  status: giteaStatus,
  webhooks: giteaWebhooks,
};
