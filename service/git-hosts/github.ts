/** GitHub.com; networks.ts has its source ranges. */
import { cut } from "./commit-status.ts";
import type { GitHost } from "./git-host.ts";
import { githubLike } from "./github-like.ts";
import { githubHeaders, githubRepository, githubWebhooks } from "./github-webhooks.ts";

const longest = 140;

export const github: GitHost = {
  name: "github",
  mark: "x-github-delivery",
  webhookPage: "Settings > Webhooks > Add webhook",
  domains: ["github.com", "ssh.github.com"],
  publishedPort: 9461,
  ...githubLike,
  status: {
    tokenPage: "your account's Settings > Developer settings > Fine-grained tokens, for this repository only",
    permission: "Commit statuses: Read and write",
    longest,
    request: (repository, { commit, state, reason, context, url }, token) => ({
      url: `${githubRepository(repository)}/statuses/${commit}`,
      headers: githubHeaders(token),
      body: { state, description: cut(reason, longest), context, target_url: url },
    }),
  },
  webhooks: githubWebhooks,
};
