/** developer.atlassian.com/{cloud,server}/bitbucket/rest. Data Center signs no test (runatlantis/atlantis#474). */
import { createHash } from "node:crypto";
import { objectOf } from "../payload.ts";
import type { Repository } from "../repository.ts";
import { type Api, type BuildResult, eventsOf, onOrOff, segments, setOrNone, textOf, withParameter } from "./api.ts";

const common = {
  variable: "BITBUCKET_TOKEN",
  authorization: (token: string) => ({ authorization: `Bearer ${token}` }),
};
const settings = (events: string) => ({ events, active: "on", "TLS verification": "on", secret: "set" });
const states = { pending: "INPROGRESS", success: "SUCCESSFUL", failure: "FAILED" } as const;

/** `page`: the commit's, where pushgate does not know the URL of the site, since a result needs one. */
function bodyOf({ state, reason, context, url, commit }: BuildResult, page: string) {
  // Bitbucket Cloud takes a key of 40 characters; a result replaces the former one of its key.
  const key = `pushgate-${createHash("sha256").update(context).digest("hex").slice(0, 16)}`;
  return { key, name: context, state: states[state], description: reason, url: url ?? `${page}/commits/${commit}` };
}

export const bitbucket: Api = {
  ...common,
  base: ({ names }) => `https://api.bitbucket.org/2.0/repositories/${segments(names)}`,
  webhooks: {
    tokenPage: "Repository settings > Access tokens",
    permission: "Webhooks: Read and write",
    list: "hooks?pagelen=100",
    next: ({ body }) => textOf(objectOf(body).next) || undefined,
    settings: ({ active, events, secret_set, skip_cert_verification }) => ({
      events: eventsOf(events),
      active: onOrOff(active),
      "TLS verification": onOrOff(skip_cert_verification !== true),
      secret: setOrNone(secret_set),
    }),
    wanted: () => settings("repo:push"),
    configuration: ({ url, secret }) => ({
      ...{ description: "pushgate", url, secret, events: ["repo:push"], active: true, skip_cert_verification: false },
    }),
    change: "PUT",
    lacks: ["Bitbucket Cloud has no API for tests and for its delivery history: its page has both."],
  },
  status: {
    // Enough to set a result: Atlassian's change notice of 2020-11-20.
    permission: "Repositories: Read",
    path: (commit) => `commit/${commit}/statuses/build`,
    body: (result, { names }) => bodyOf(result, `https://bitbucket.org/${segments(names)}`),
  },
};

/** A repository's address over HTTPS is `<server>/scm/<project>/<repository>.git`, over SSH without `scm`. */
function placeOf({ origin, names }: Repository, api = ""): string {
  const [project = "", name = ""] = names.slice(-2).map(encodeURIComponent);
  const server = [origin, ...names.slice(0, -3).map(encodeURIComponent)].join("/");
  return `${server}${api}/projects/${project}/repos/${name}`;
}

export const bitbucketDataCenter: Api = {
  ...common,
  base: (repository) => placeOf(repository, "/rest/api/latest"),
  webhooks: {
    tokenPage: "Repository settings > HTTP access tokens",
    permission: "Repository admin",
    list: "webhooks?limit=100",
    next({ body }, asked) {
      const { isLastPage, nextPageStart } = objectOf(body);
      if (isLastPage !== false || typeof nextPageStart !== "number") return undefined;
      return withParameter(asked, "start", nextPageStart);
    },
    settings: ({ active, events, configuration, sslVerificationRequired }) => ({
      events: eventsOf(events),
      active: onOrOff(active),
      ...(typeof sslVerificationRequired === "boolean" && { "TLS verification": onOrOff(sslVerificationRequired) }),
      secret: setOrNone(objectOf(configuration).secret),
    }),
    wanted: () => settings("repo:refs_changed"),
    configuration: ({ url, secret }) => ({
      ...{ name: "pushgate", url, events: ["repo:refs_changed"], active: true, sslVerificationRequired: true },
      configuration: { secret },
    }),
    change: "PUT",
    lacks: [
      "Bitbucket Data Center has no API for tests with a signature, and pushgate's rule at Cloudflare blocks one without.",
      "Bitbucket Data Center has no API for its delivery history: its page has the last one of each event.",
    ],
  },
  status: {
    permission: "Repository read",
    path: (commit) => `commits/${commit}/builds`,
    body: (result, repository) => bodyOf(result, placeOf(repository)),
  },
};
