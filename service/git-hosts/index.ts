/** Every git host that pushgate knows. A new git host is a module in this folder and a row in this table. */
import type { IncomingHttpHeaders } from "node:http";
import { bitbucket } from "./bitbucket.ts";
import { bitbucketDataCenter } from "./bitbucket-data-center.ts";
import { forgejo } from "./forgejo.ts";
import type { GitHost } from "./git-host.ts";
import { gitea } from "./gitea.ts";
import { github } from "./github.ts";
import { gitlab } from "./gitlab.ts";
import { gitlabSelfManaged } from "./gitlab-self-managed.ts";
import { gogs } from "./gogs.ts";
import { standardWebhooks } from "./standard-webhooks.ts";

/** Those that carry the marks of others come first: Forgejo's deliveries carry those of Gitea, Gogs and GitHub. */
const table = {
  forgejo,
  gitea,
  gogs,
  github,
  gitlab,
  "gitlab-self-managed": gitlabSelfManaged,
  bitbucket,
  "bitbucket-data-center": bitbucketDataCenter,
  "standard-webhooks": standardWebhooks,
};

export type GitHostName = keyof typeof table;
export const gitHostNames = Object.keys(table) as GitHostName[];
export const gitHosts: Readonly<Record<GitHostName, GitHost>> = table;

const all: readonly GitHost[] = Object.values(table);

/** The git host that a delivery says it comes from. A mark proves nothing: no signature covers a header. */
export const markedBy = (headers: IncomingHttpHeaders): GitHost | undefined =>
  all.find(({ mark }) => headers[mark] !== undefined);

/** Says where the headers are of another git host than the hook's, which would explain why they hold no signature. */
export function otherSender(headers: IncomingHttpHeaders, gitHost: GitHostName): string {
  const { mark, name } = markedBy(headers) ?? gitHosts[gitHost];
  const carries = mark in headers && headers[gitHosts[gitHost].mark] === undefined;
  return carries ? ` The headers are those of ${name}, and the hook's gitHost is ${gitHost}.` : "";
}

export type { Decision, Dialect, GitHost, Push, SignatureShape } from "./git-host.ts";
export { type Repository, repositoryOf } from "./repository.ts";
