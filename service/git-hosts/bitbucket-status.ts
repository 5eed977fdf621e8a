/** The body in which Bitbucket Cloud and Data Center take the result of a build. */
import { createHash } from "node:crypto";
import { type BuildResult, cut, type StatusRequest } from "./commit-status.ts";

export const longest = 255;
/** The body of pushgate's own pings. */
export const pingBody = JSON.stringify({ test: true });
const states = { pending: "INPROGRESS", success: "SUCCESSFUL", failure: "FAILED" } as const;

/** `commitPage`: the URL where pushgate does not know that of the site, since a result needs one. */
export function bitbucketBody({ state, reason, context, url }: BuildResult, commitPage: string): StatusRequest["body"] {
  // Bitbucket Cloud takes a key of 40 characters; a result replaces the former one of its key.
  const key = `pushgate-${createHash("sha256").update(context).digest("hex").slice(0, 16)}`;
  return { key, name: context, state: states[state], description: cut(reason, longest), url: url ?? commitPage };
}
