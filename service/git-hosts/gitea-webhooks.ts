/**
 * The API for webhooks of Gitea and Forgejo, `repos/{owner}/{repo}/hooks` of their Swagger pages, and of Gogs,
 * gogs.io/api-reference. The API shows no secret. A PATCH of Gitea and Forgejo resets the events, the branch filter and
 * the authorization header that it does not name. A PATCH of Gogs keeps the former secret, so that a new webhook takes
 * the place of the former one there.
 */
import { listOf, objectOf } from "./payload.ts";
import { type Repository, splitNames } from "./repository.ts";
import { type ApiAnswer, eventsOf, onOrOff, textOf, type Wanted, type WebhookApi } from "./webhook-api.ts";

const page = 50;

function hooksOf(repository: Repository): string {
  const { prefix, last } = splitNames(repository);
  return `${repository.origin}${prefix}/api/v1/repos/${last}/hooks`;
}

const configuration = ({ url, secret }: Wanted) => ({
  active: true,
  events: ["push"],
  config: { url, content_type: "json", secret },
});

/** Gitea and Forgejo count pages, and name no following one. */
function nextPage({ body }: ApiAnswer, asked: string): string | undefined {
  if (listOf(body).length < page) return undefined;
  const url = new URL(asked);
  url.searchParams.set("page", String(Number(url.searchParams.get("page")) + 1));
  return url.href;
}

const noRecord = (name: string): string => `${name} has no API for its delivery history: its page has it.`;

const family = (type: string, variable: string, permission: string): Omit<WebhookApi, "correct" | "lacks"> => ({
  variable: () => variable,
  tokenPage: "Settings > Applications of an account that administers this repository only",
  permission,
  authorization: (token) => ({ authorization: `token ${token}` }),
  list: (repository) => ({ method: "GET", url: `${hooksOf(repository)}?limit=${page}&page=1` }),
  read: (body) =>
    listOf(body).map(({ id, active, events, config, branch_filter }) => {
      const { url, content_type } = objectOf(config);
      return {
        id: textOf(id),
        url: textOf(url),
        settings: {
          "content type": textOf(content_type),
          events: eventsOf(events),
          active: onOrOff(active),
          ...(branch_filter !== undefined && { branches: textOf(branch_filter).replace(/^\*$/, "") || "all" }),
        },
      };
    }),
  next: nextPage,
  wanted: () => ({ "content type": "json", events: "push", active: "on", branches: "all" }),
  create: (repository, wanted) => ({
    method: "POST",
    url: hooksOf(repository),
    body: { type, ...configuration(wanted) },
  }),
});

const giteaLike = (type: string, name: string, variable: string): WebhookApi => ({
  ...family(type, variable, "repository: Read and Write"),
  correct: (repository, webhook, wanted) => [
    { method: "PATCH", url: `${hooksOf(repository)}/${webhook}`, body: configuration(wanted) },
  ],
  ping: {
    request: (repository, webhook) => ({ method: "POST", url: `${hooksOf(repository)}/${webhook}/tests` }),
    sends: "its last commit as a push",
  },
  lacks: [noRecord(name)],
});

export const giteaWebhooks = giteaLike("gitea", "Gitea", "GITEA_TOKEN");
export const forgejoWebhooks = giteaLike("forgejo", "Forgejo", "FORGEJO_TOKEN");

const gogsFamily = family("gogs", "GOGS_TOKEN", "all that the account may do");
export const gogsWebhooks: WebhookApi = {
  ...gogsFamily,
  // One list, without pages.
  next: () => undefined,
  correct: (repository, webhook, wanted) => [
    gogsFamily.create(repository, wanted),
    { method: "DELETE", url: `${hooksOf(repository)}/${webhook}` },
  ],
  lacks: ["Gogs has no API for tests.", noRecord("Gogs")],
};
