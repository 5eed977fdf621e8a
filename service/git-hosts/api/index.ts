/** The APIs of the git hosts that have one, for the command line and the reporter: receiver and builder do without. */
import type { GitHostName } from "../index.ts";
import type { Api } from "./api.ts";
import { bitbucket, bitbucketDataCenter } from "./bitbucket.ts";
import { forgejo, gitea, gogs } from "./gitea.ts";
import { github, githubEnterprise } from "./github.ts";
import { gitlab } from "./gitlab.ts";

export const apis: Readonly<Partial<Record<GitHostName, Api>>> = {
  ...{ github, "github-enterprise": githubEnterprise, gitlab, "gitlab-self-managed": gitlab, gitea, forgejo, gogs },
  ...{ bitbucket, "bitbucket-data-center": bitbucketDataCenter },
};
