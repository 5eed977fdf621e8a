/** GitHub.com; networks.ts has its source ranges. */
import type { GitHost } from "./git-host.ts";
import { githubDialect } from "./github-dialect.ts";

export const github: GitHost = { name: "github", publishedPort: 9461, ...githubDialect };
