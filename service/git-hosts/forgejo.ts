/** Self-hosted. */
import type { GitHost } from "./git-host.ts";
import { githubDialect } from "./github-dialect.ts";

export const forgejo: GitHost = { name: "forgejo", ...githubDialect };
