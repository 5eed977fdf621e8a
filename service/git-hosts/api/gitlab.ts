/** docs.gitlab.com/api/project_webhooks. Events since 17.3, `resend` since 17.4; five resends and tests a minute. */
import { isWithin } from "../index.ts";
import { isMeantAsKey } from "../standard-signature.ts";
import { type Api, headersOf, onOrOff, recordedAnswer, setOrNone, textOf } from "./api.ts";

const otherEvents = (
  "confidential_issues confidential_note deployment feature_flag issues job merge_requests note pipeline releases " +
  "resource_access_token tag_push wiki_page"
).split(" ");

const present = (name: string, value: unknown) => (typeof value === "boolean" ? { [name]: setOrNone(value) } : {});
const states = { pending: "running", success: "success", failure: "failed" } as const;

export const gitlab: Api = {
  // GitLab.com serves SSH under a second name.
  base: ({ host, origin, names }) =>
    `${isWithin(host, "gitlab.com") ? "https://gitlab.com" : origin}/api/v4/projects/${encodeURIComponent(names.join("/"))}`,
  variable: "GITLAB_TOKEN",
  authorization: (token) => ({ "private-token": token }),
  webhooks: {
    tokenPage: "Settings > Access tokens of this project",
    permission: "role Maintainer, scope api",
    list: "hooks?per_page=100",
    settings: (hook) => ({
      events: ["push", ...otherEvents].filter((event) => hook[`${event}_events`] === true).join(", "),
      branches: textOf(hook.push_events_branch_filter) || "all",
      // GitLab switches a webhook off that fails often, and on again once a test arrives.
      ...(typeof hook.alert_status === "string" && { active: onOrOff(hook.alert_status === "executable") }),
      "TLS verification": onOrOff(hook.enable_ssl_verification),
      ...present("secret token", hook.token_present),
      ...present("signing token", hook.signing_token_present),
    }),
    wanted: ({ secret }) => ({
      events: "push",
      branches: "all",
      active: "on",
      "TLS verification": "on",
      [isMeantAsKey(secret) ? "signing token" : "secret token"]: "set",
    }),
    configuration: ({ url, secret }) => ({
      url,
      push_events: true,
      ...Object.fromEntries(otherEvents.map((event) => [`${event}_events`, false])),
      push_events_branch_filter: "",
      branch_filter_strategy: "all_branches",
      enable_ssl_verification: true,
      [isMeantAsKey(secret) ? "signing_token" : "token"]: secret,
    }),
    change: "PUT",
    pingActivates: true,
    ping: { path: "test/push_events", sends: "its last commit as a push", rejected: [422] },
    deliveries: {
      days: 7,
      list: "events",
      again: "resend",
      perPage: 20, // lib/api/hooks/events.rb: it answers more with 400
      read: ({ id, trigger, request_headers, response_headers, response_body, response_status }) => {
        const sent = headersOf(request_headers);
        const answer = recordedAnswer(response_status, response_headers, response_body);
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
      },
    },
    lacks: [
      "GitLab before 19 has no signing token. Store a secret token instead: npx pulumi config set --secret --path " +
        'pushgate:secrets.<hook>.current "$(openssl rand -base64 32)", then npx pulumi up.',
    ],
  },
  status: {
    // Ci::PipelinePolicy: only accounts that may push or merge to a protected branch may set a result there.
    permission: "role Maintainer, or Developer where developers may push or merge to the branch; scope api",
    path: (commit) => `statuses/${commit}`,
    body: ({ state, reason: description, context: name, url }) => ({
      ...{ state: states[state], description, name, target_url: url },
    }),
  },
};
