/** GitLab on a server of its own, which GitLab calls Self-Managed: it publishes no source ranges. */
import type { GitHost } from "./git-host.ts";
import { gitlabLike } from "./gitlab-like.ts";

export const gitlabSelfManaged: GitHost = { name: "gitlab-self-managed", ...gitlabLike };
