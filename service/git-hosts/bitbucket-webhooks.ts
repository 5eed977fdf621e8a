/**
 * Bitbucket's APIs for webhooks. Cloud: developer.atlassian.com/cloud/bitbucket/rest/api-group-repositories, which shows
 * whether a secret is set. Data Center: developer.atlassian.com/server/bitbucket/rest, `webhooks` of a repository, which
 * shows the secret itself; pushgate reads only whether there is one. Data Center's test carries no signature
 * (runatlantis/atlantis#474).
 */
import { listOf, objectOf } from "./payload.ts";
import { type Repository, segments } from "./repository.ts";
import { eventsOf, onOrOff, textOf, type Wanted, type WebhookApi } from "./webhook-api.ts";

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const variable = (): string => "BITBUCKET_TOKEN";
const settings = (events: string) => ({ events, active: "on", "TLS verification": "on", secret: "set" });

const cloudHooks = ({ names }: Repository): string =>
  `https://api.bitbucket.org/2.0/repositories/${segments(names)}/hooks`;
const cloudConfiguration = ({ url, secret }: Wanted) => ({
  description: "pushgate",
  url,
  active: true,
  skip_cert_verification: false,
  secret,
  events: ["repo:push"],
});

export const bitbucketWebhooks: WebhookApi = {
  variable,
  tokenPage: "Repository settings > Access tokens",
  permission: "Webhooks: Read and write",
  authorization: bearer,
  list: (repository) => ({ method: "GET", url: `${cloudHooks(repository)}?pagelen=100` }),
  read: (body) =>
    listOf(objectOf(body).values).map(({ uuid, url, active, events, secret_set, skip_cert_verification }) => ({
      id: textOf(uuid),
      url: textOf(url),
      settings: {
        events: eventsOf(events),
        active: onOrOff(active),
        "TLS verification": onOrOff(skip_cert_verification !== true),
        secret: secret_set === true ? "set" : "none",
      },
    })),
  next: ({ body }) => textOf(objectOf(body).next) || undefined,
  wanted: () => settings("repo:push"),
  create: (repository, wanted) => ({ method: "POST", url: cloudHooks(repository), body: cloudConfiguration(wanted) }),
  correct: (repository, webhook, wanted) => [
    {
      method: "PUT",
      url: `${cloudHooks(repository)}/${encodeURIComponent(webhook)}`,
      body: cloudConfiguration(wanted),
    },
  ],
  lacks: ["Bitbucket Cloud has no API for tests and for its delivery history: its page has both."],
};

/** A repository's address over HTTPS is `<base>/scm/<project>/<repository>.git`, over SSH without `scm`. */
export function dataCenterPlace({ origin, names }: Repository): { readonly base: string; readonly path: string } {
  const [project = "", name = ""] = names.slice(-2);
  const base = [origin, ...names.slice(0, -3).map(encodeURIComponent)].join("/");
  return { base, path: `projects/${segments([project])}/repos/${segments([name])}` };
}

function dataCenterHooks(repository: Repository): string {
  const { base, path } = dataCenterPlace(repository);
  return `${base}/rest/api/latest/${path}/webhooks`;
}
const dataCenterConfiguration = ({ url, secret }: Wanted) => ({
  name: "pushgate",
  url,
  active: true,
  events: ["repo:refs_changed"],
  configuration: { secret },
  sslVerificationRequired: true,
});

export const bitbucketDataCenterWebhooks: WebhookApi = {
  variable,
  tokenPage: "Repository settings > HTTP access tokens",
  permission: "Repository admin",
  authorization: bearer,
  list: (repository) => ({ method: "GET", url: `${dataCenterHooks(repository)}?limit=100` }),
  read: (body) =>
    listOf(objectOf(body).values).map(({ id, url, active, events, configuration, sslVerificationRequired }) => ({
      id: textOf(id),
      url: textOf(url),
      settings: {
        events: eventsOf(events),
        active: onOrOff(active),
        ...(typeof sslVerificationRequired === "boolean" && { "TLS verification": onOrOff(sslVerificationRequired) }),
        secret: textOf(objectOf(configuration).secret) === "" ? "none" : "set",
      },
    })),
  next({ body }, asked) {
    const { isLastPage, nextPageStart } = objectOf(body);
    if (isLastPage !== false || typeof nextPageStart !== "number") return undefined;
    const url = new URL(asked);
    url.searchParams.set("start", String(nextPageStart));
    return url.href;
  },
  wanted: () => settings("repo:refs_changed"),
  create: (repository, wanted) => ({
    method: "POST",
    url: dataCenterHooks(repository),
    body: dataCenterConfiguration(wanted),
  }),
  correct: (repository, webhook, wanted) => [
    { method: "PUT", url: `${dataCenterHooks(repository)}/${webhook}`, body: dataCenterConfiguration(wanted) },
  ],
  lacks: [
    "Bitbucket Data Center has no API for tests with a signature, and pushgate's rule at Cloudflare blocks one without.",
    "Bitbucket Data Center has no API for its delivery history: its page has the last one of each event.",
  ],
};
