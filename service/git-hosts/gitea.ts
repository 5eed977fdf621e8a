/** Gitea: self-hosted, so it publishes no source ranges; it signs as GitHub does. */
import type { GitHost } from "./git-host.ts";
import { giteaStatus } from "./gitea-status.ts";
import { githubDialect } from "./github-dialect.ts";

export const gitea: GitHost = {
  name: "gitea",
  mark: "x-gitea-event",
  webhookPage: "Settings > Webhooks > Add webhook > Gitea",
  ...githubDialect,
  status: giteaStatus,
};
