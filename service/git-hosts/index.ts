/** Every git host that pushgate knows. A new git host is a module in this folder and a row in this table. */
import { bitbucket } from "./bitbucket.ts";
import { forgejo } from "./forgejo.ts";
import type { GitHost } from "./git-host.ts";
import { gitea } from "./gitea.ts";
import { github } from "./github.ts";
import { gitlab } from "./gitlab.ts";

const table = { github, gitlab, bitbucket, gitea, forgejo };

export type GitHostName = keyof typeof table;
export const gitHostNames = Object.keys(table) as GitHostName[];
export const gitHosts: Readonly<Record<GitHostName, GitHost>> = table;

/** The git hosts whose deliveries the receiver verifies. */
export const verifiedGitHosts = gitHostNames.filter((name) => table[name].dialect);

export type { Decision, Dialect, GitHost, Push, SignatureShape } from "./git-host.ts";
