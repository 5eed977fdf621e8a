/** The API by which Gitea and Forgejo take the result of a build. */
import { cut, type StatusApi } from "./commit-status.ts";
import { splitNames } from "./repository.ts";

/** Gitea and Forgejo name no limit; this is GitLab's. */
const longest = 255;

export const giteaStatus: StatusApi = {
  tokenPage: "Settings > Applications of an account that may write to this repository only",
  permission: "repository: Read and Write",
  longest,
  request: (repository, { commit, state, reason, context, url }, token) => {
    const { prefix, last } = splitNames(repository);
    return {
      url: `${repository.origin}${prefix}/api/v1/repos/${last}/statuses/${commit}`,
      headers: { authorization: `token ${token}` },
      body: { state, description: cut(reason, longest), context, target_url: url },
    };
  },
};
