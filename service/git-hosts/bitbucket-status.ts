/** The body in which Bitbucket Cloud and Data Center take the result of a build. */
import { createHash } from "node:crypto";
import { type BuildResult, cut, type StatusRequest } from "./commit-status.ts";

export const longest = 255;
/** Of pushgate's own pings. */
export const pingBody = JSON.stringify({ test: true });
const states = { pending: "INPROGRESS", success: "SUCCESSFUL", failure: "FAILED" } as const;

/** `commitPage`: a result needs a URL, also where pushgate does not know that of the site. */
export function bitbucketBody({ state, reason, context, url }: BuildResult, commitPage: string): StatusRequest["body"] {
  // Bitbucket Cloud takes 40 characters; a result replaces the former one of its key.
  const key = `pushgate-${createHash("sha256").update(context).digest("hex").slice(0, 16)}`;
  return { key, name: context, state: states[state], description: cut(reason, longest), url: url ?? commitPage };
}
