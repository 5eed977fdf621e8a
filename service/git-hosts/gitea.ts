/** Self-hosted. */
import type { GitHost } from "./git-host.ts";
import { githubDialect } from "./github-dialect.ts";

export const gitea: GitHost = { name: "gitea", ...githubDialect };
