/**
 * GitLab's API for webhooks: docs.gitlab.com/api/project_webhooks. It shows no token; GitLab 19 shows whether one is set. A
 * changed URL removes the secret token, so that every change sends it. Events are there since 17.3, `resend` since 17.4,
 * and tests since 16.11; tests and resends are limited to five a minute.
 */
import { listOf } from "./payload.ts";
import type { Repository } from "./repository.ts";
import { isMeantAsKey } from "./standard-signature.ts";
import { headersOf, nextLink, onOrOff, recordedAnswer, textOf, type Wanted, type WebhookApi } from "./webhook-api.ts";

/** GitLab.com serves SSH under a second name. */
export const gitlabApi = ({ host, origin, names }: Repository): string =>
  `${host === "altssh.gitlab.com" ? "https://gitlab.com" : origin}/api/v4/projects/${encodeURIComponent(names.join("/"))}`;
const hooksOf = (repository: Repository): string => `${gitlabApi(repository)}/hooks`;

/** Each is a field `<name>_events`. */
const otherEvents = [
  ...["confidential_issues", "confidential_note", "deployment", "feature_flag", "issues", "job", "merge_requests"],
  ...["note", "pipeline", "releases", "resource_access_token", "tag_push", "wiki_page"],
];
const fieldOf = (event: string): string => `${event}_events`;

const configuration = ({ url, secret }: Wanted) => ({
  url,
  push_events: true,
  ...Object.fromEntries(otherEvents.map((event) => [fieldOf(event), false])),
  push_events_branch_filter: "",
  branch_filter_strategy: "all_branches",
  enable_ssl_verification: true,
  [isMeantAsKey(secret) ? "signing_token" : "token"]: secret,
});

const present = (value: unknown): string | undefined =>
  typeof value === "boolean" ? (value ? "set" : "none") : undefined;

export const gitlabWebhooks: WebhookApi = {
  // As GitLab's own program glab has it.
  variable: () => "GITLAB_TOKEN",
  tokenPage: "Settings > Access tokens of this project",
  permission: "role Maintainer, scope api",
  authorization: (token) => ({ "private-token": token }),
  list: (repository) => ({ method: "GET", url: `${hooksOf(repository)}?per_page=100` }),
  read: (body) =>
    listOf(body).map((hook) => {
      const { id, url, push_events_branch_filter, enable_ssl_verification, alert_status } = hook;
      const events = ["push", ...otherEvents].filter((event) => hook[fieldOf(event)] === true);
      const [token, signing] = [present(hook.token_present), present(hook.signing_token_present)];
      return {
        id: textOf(id),
        url: textOf(url),
        settings: {
          events: events.join(", "),
          branches: textOf(push_events_branch_filter) || "all",
          // GitLab switches a webhook off that fails often, and on again once a test arrives.
          ...(typeof alert_status === "string" && { active: onOrOff(alert_status === "executable") }),
          "TLS verification": onOrOff(enable_ssl_verification),
          ...(token !== undefined && { "secret token": token }),
          ...(signing !== undefined && { "signing token": signing }),
        },
      };
    }),
  next: nextLink,
  wanted: ({ secret }) => ({
    events: "push",
    branches: "all",
    active: "on",
    "TLS verification": "on",
    [isMeantAsKey(secret) ? "signing token" : "secret token"]: "set",
  }),
  pingActivates: true,
  create: (repository, wanted) => ({ method: "POST", url: hooksOf(repository), body: configuration(wanted) }),
  correct: (repository, webhook, wanted) => [
    { method: "PUT", url: `${hooksOf(repository)}/${webhook}`, body: configuration(wanted) },
  ],
  ping: {
    request: (repository, webhook) => ({ method: "POST", url: `${hooksOf(repository)}/${webhook}/test/push_events` }),
    sends: "its last commit as a push",
    rejected: [422],
  },
  deliveries: {
    days: 7,
    list: (repository, webhook) => ({ method: "GET", url: `${hooksOf(repository)}/${webhook}/events?per_page=100` }),
    read: (body) =>
      listOf(body).map(({ id, trigger, request_headers, response_headers, response_body, response_status }) => {
        const sent = headersOf(request_headers);
        const answer = recordedAnswer(response_status, response_headers, response_body);
        // The history itself has no time.
        const at = new Date(answer.headers.date ?? "");
        return {
          id: textOf(id),
          delivery: sent["idempotency-key"] ?? sent["x-gitlab-event-uuid"] ?? "",
          kind: textOf(trigger).replace(/_hooks$/, ""),
          isPing: false,
          ...(!Number.isNaN(at.getTime()) && { time: at.toISOString() }),
          status: answer.status,
          answer,
        };
      }),
    redeliver: (repository, webhook, id) => ({
      method: "POST",
      url: `${hooksOf(repository)}/${webhook}/events/${id}/resend`,
    }),
  },
  lacks: [
    "GitLab before 19 has no signing token. Store a secret token instead: npx pulumi config set --secret --path " +
      'pushgate:secrets.<hook>.current "$(openssl rand -base64 32)", then npx pulumi up.',
  ],
};
