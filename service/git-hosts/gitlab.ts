/** GitLab.com; networks.ts has its source ranges. */
import type { GitHost } from "./git-host.ts";
import { gitlabLike } from "./gitlab-like.ts";

export const gitlab: GitHost = {
  name: "gitlab",
  domains: ["gitlab.com", "altssh.gitlab.com"],
  publishedPort: 9462,
  ...gitlabLike,
};
