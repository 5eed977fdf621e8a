/**
 * GitHub's API for webhooks, version 2022-11-28: docs.github.com/en/rest/repos/webhooks. A secret reads as `********`, and
 * a PATCH of `config` without the secret removes it, so that every change sends the whole configuration.
 */
import { listOf, objectOf } from "./payload.ts";
import { type Repository, segments } from "./repository.ts";
import { eventsOf, nextLink, onOrOff, recordedAnswer, textOf, type WebhookApi } from "./webhook-api.ts";

const cloud = ["github.com", "ssh.github.com"];
const isCloud = ({ host }: Repository): boolean => cloud.includes(host);

/** GitHub Enterprise Server has its API below the repository's own origin, so that no token goes elsewhere. */
const apiOf = (repository: Repository): string =>
  isCloud(repository) ? "https://api.github.com" : `${repository.origin}/api/v3`;
export const githubRepository = (repository: Repository): string =>
  `${apiOf(repository)}/repos/${segments(repository.names)}`;
const hooksOf = (repository: Repository): string => `${githubRepository(repository)}/hooks`;

const configuration = ({ url, secret }: { readonly url: string; readonly secret: string }) => ({
  active: true,
  events: ["push"],
  config: { url, content_type: "json", secret, insecure_ssl: "0" },
});

export const githubHeaders = (token: string): Record<string, string> => ({
  accept: "application/vnd.github+json",
  authorization: `Bearer ${token}`,
  "x-github-api-version": "2022-11-28",
});

export const githubWebhooks: WebhookApi = {
  // As GitHub's own program gh has it.
  variable: (repository) => (isCloud(repository) ? "GITHUB_TOKEN" : "GH_ENTERPRISE_TOKEN"),
  tokenPage: "your account's Settings > Developer settings > Fine-grained tokens, for this repository only",
  permission: "Webhooks: Read and write",
  authorization: githubHeaders,
  list: (repository) => ({ method: "GET", url: `${hooksOf(repository)}?per_page=100` }),
  read: (body) =>
    listOf(body).map(({ id, active, events, config }) => {
      const { url, content_type, secret, insecure_ssl } = objectOf(config);
      return {
        id: textOf(id),
        url: textOf(url),
        settings: {
          "content type": textOf(content_type) || "form",
          events: eventsOf(events),
          active: onOrOff(active),
          "TLS verification": onOrOff(textOf(insecure_ssl) !== "1"),
          secret: textOf(secret) === "" ? "none" : "set",
        },
      };
    }),
  next: nextLink,
  wanted: () => ({ "content type": "json", events: "push", active: "on", "TLS verification": "on", secret: "set" }),
  create: (repository, wanted) => ({
    method: "POST",
    url: hooksOf(repository),
    body: { name: "web", ...configuration(wanted) },
  }),
  correct: (repository, webhook, wanted) => [
    { method: "PATCH", url: `${hooksOf(repository)}/${webhook}`, body: configuration(wanted) },
  ],
  ping: { request: (repository, webhook) => ({ method: "POST", url: `${hooksOf(repository)}/${webhook}/pings` }) },
  // docs.github.com/en/rest/repos/webhooks: deliveries page by a cursor in the Link header; attempts keep the GUID.
  deliveries: {
    days: 3,
    list: (repository, webhook) => ({
      method: "GET",
      url: `${hooksOf(repository)}/${webhook}/deliveries?per_page=100`,
    }),
    read: (body) =>
      listOf(body).map(({ id, guid, delivered_at, status_code, event }) => ({
        id: textOf(id),
        delivery: textOf(guid),
        kind: textOf(event),
        isPing: event === "ping",
        time: textOf(delivered_at),
        status: Number(status_code) || 0,
      })),
    one: {
      request: (repository, webhook, id) => ({
        method: "GET",
        url: `${hooksOf(repository)}/${webhook}/deliveries/${id}`,
      }),
      read: (body) => {
        const { status_code, response } = objectOf(body);
        const { headers, payload } = objectOf(response);
        return recordedAnswer(status_code, headers, payload);
      },
    },
    redeliver: (repository, webhook, id) => ({
      method: "POST",
      url: `${hooksOf(repository)}/${webhook}/deliveries/${id}/attempts`,
    }),
  },
  lacks: [],
};
