/**
 * Swagger pages of Gitea and Forgejo; gogs.io/api-reference. They show no secret, and a PATCH keeps the former one, so that
 * a new webhook takes the former one's place.
 */
import { listOf, objectOf } from "../payload.ts";
import { type Api, eventsOf, onOrOff, segments, textOf, type WebhookApi, withParameter } from "./api.ts";
import { github, statusBody } from "./github.ts";

const page = 50; // webhooks

const family = (name: string, permission: string, webhooks: Partial<WebhookApi>): Api => ({
  base: ({ origin, names }) => {
    const prefix = segments(["", ...names.slice(0, -2)]);
    return `${origin}${prefix}/api/v1/repos/${segments(names.slice(-2))}`;
  },
  variable: `${name.toUpperCase()}_TOKEN`,
  authorization: (token) => ({ authorization: `token ${token}` }),
  webhooks: {
    tokenPage: "Settings > Applications of an account that administers this repository only",
    permission,
    list: `hooks?limit=${page}&page=1`,
    // They count pages, and name no following one.
    next: ({ body }, asked) =>
      listOf(body).length < page
        ? undefined
        : withParameter(asked, "page", Number(new URL(asked).searchParams.get("page")) + 1),
    settings: ({ active, events, config, branch_filter }) => ({
      "content type": textOf(objectOf(config).content_type),
      events: eventsOf(events),
      active: onOrOff(active),
      ...(branch_filter !== undefined && { branches: textOf(branch_filter).replace(/^\*$/, "") || "all" }),
    }),
    wanted: () => ({ "content type": "json", events: "push", active: "on", branches: "all" }),
    configuration: ({ url, secret }) => ({
      ...{ active: true, events: ["push"], config: { url, secret, content_type: "json" } },
    }),
    made: { type: name.toLowerCase() },
    ...webhooks,
    lacks: [...(webhooks.lacks ?? []), `${name} has no API for its delivery history: its page has it.`],
  },
});

const permission = "repository: Read and Write";
const likeGitea = (name: string): Api => ({
  ...family(name, permission, { ping: { path: "tests", sends: "its last commit as a push" } }),
  status: {
    ...github.status!,
    body: statusBody,
    tokenPage: "Settings > Applications of an account that may write to this repository only",
    permission,
    longest: 255,
  },
});

export const gitea = likeGitea("Gitea");
export const forgejo = likeGitea("Forgejo");
// One list, without pages.
export const gogs: Api = family("Gogs", "all that the account may do", {
  ...{ next: () => undefined, lacks: ["Gogs has no API for tests."] },
});
