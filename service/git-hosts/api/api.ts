/**
 * The form of a git host's API: what each family of them states as data, and the requests that are made of it. Nothing
 * here connects. Answers are untrusted.
 */
import { type Json, listOf, objectOf } from "../payload.ts";
import type { Repository } from "../repository.ts";

type Texts = Readonly<Record<string, string>>;

export type Api = {
  /** URL of a repository. */
  readonly base: (repository: Repository) => string;
  /** The variable of the environment with the operator's token. */
  readonly variable: (repository: Repository) => string;
  readonly authorization: (token: string) => Texts;
  readonly webhooks: WebhookApi;
  /** Absent where it takes no results of builds. */
  readonly status?: StatusApi;
};

/** Where a person makes a token, and its least permission. */
type Token = { readonly tokenPage: string; readonly permission: string };

export type WebhookApi = Token & {
  /** The first page of the list, below the repository's URL. */
  readonly list: string;
  /** The address of a list's following page; absent where a Link header has it. */
  readonly next?: (answer: ApiAnswer, asked: string) => string | undefined;
  readonly settings: (webhook: Json) => Settings;
  /** The settings that a new webhook has, as `settings` shows them. */
  readonly wanted: (wanted: Wanted) => Settings;
  /** All of it with the secret, each time: a list shows a masked secret or none. */
  readonly configuration: (wanted: Wanted) => object;
  /** What a new webhook needs beside its configuration. */
  readonly made?: object;
  /** Corrects a webhook; where it is absent a new one takes its place. */
  readonly change?: "PATCH" | "PUT";
  /** A webhook that the git host has switched off is on again once a ping has arrived. */
  readonly pingActivates?: true;
  /** Has the git host send a delivery now. */
  readonly ping?: {
    /** Below the webhook's URL. */
    readonly path: string;
    /** What the git host sends, where that is no ping. */
    readonly sends?: string;
    /** Statuses, beside 2xx, with which the API answers where the delivery was rejected. */
    readonly rejected?: readonly number[];
  };
  readonly deliveries?: Deliveries;
  /** One line for each thing that pushgate wants and the API does not have. */
  readonly lacks: readonly string[];
};

/** The delivery history, the newest first. */
type Deliveries = {
  /** Days that it reaches back. */
  readonly days: number;
  /** Its list below the webhook's URL, and below an entry what has it sent again. */
  readonly list: string;
  readonly again: string;
  readonly read: (entry: Json) => Recorded;
  /** Reads one entry's answer, where the list does not have it. */
  readonly answer?: (entry: Json) => RecordedAnswer;
};

export type StatusApi = Token & {
  readonly path: (commit: string) => string;
  readonly body: (result: BuildResult, repository: Repository) => Readonly<Record<string, string | undefined>>;
  /** Characters of a reason that the API takes; 255 where it is absent. */
  readonly longest?: number;
};

/** The result of a build, for the commit that was built. */
export type BuildResult = {
  readonly commit: string;
  readonly state: "pending" | "success" | "failure";
  /** One line. */
  readonly reason: string;
  /** Which build this is: other programs set results on the same commit. */
  readonly context: string;
  /** The site's address; absent where another web server serves it. */
  readonly url?: string | undefined;
};

/** Without the token. */
export type ApiRequest = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly url: string;
  /** Sent as JSON. */
  readonly body?: unknown;
};

export type ApiAnswer = {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Texts;
  readonly body: unknown;
};

export type Wanted = { readonly url: string; readonly secret: string };

/** A webhook as the API shows it. */
export type Webhook = { readonly id: string; readonly url: string; readonly settings: Settings };
/** Names and values for a person: "events" -> "push". A setting that the API does not show is absent. */
export type Settings = Texts;

/** What the git host got, with status 0 where it got nothing; its shape is that of `Answer` in infra/trace/evidence.ts. */
export type RecordedAnswer = { readonly status: number; readonly headers: Texts; readonly body?: string };

/** One attempt at a delivery, as the delivery history has it. */
export type Recorded = {
  /** The attempt's id in the API. */
  readonly id: string;
  /** The delivery's id, in its header and in the hosts' logs; all attempts share it. */
  readonly delivery: string;
  readonly kind: string;
  readonly isPing: boolean;
  /** ISO 8601; absent where the history has no time. */
  readonly time?: string;
  /** 0 where the git host got no answer. */
  readonly status: number;
  /** The answer, where a list has it already. */
  readonly answer?: RecordedAnswer;
};

/** The requests for the webhooks of one repository. */
export function webhookRequests({ base, webhooks }: Api, repository: Repository) {
  const { list, made, configuration, change, ping, deliveries } = webhooks;
  const [all = ""] = `${base(repository)}/${list}`.split("?");
  const at = (webhook: string, ...path: (string | undefined)[]) =>
    [all, encodeURIComponent(webhook), ...path].join("/");
  const request = (method: ApiRequest["method"], url: string, body?: object): ApiRequest => ({ method, url, body });
  const create = (wanted: Wanted) => request("POST", all, { ...made, ...configuration(wanted) });
  return {
    list: request("GET", `${base(repository)}/${list}`),
    create,
    correct: (webhook: string, wanted: Wanted) =>
      change === undefined
        ? [create(wanted), request("DELETE", at(webhook))]
        : [request(change, at(webhook), configuration(wanted))],
    ping: (webhook: string) => request("POST", at(webhook, ping?.path)),
    deliveries: (webhook: string) => request("GET", `${at(webhook, deliveries?.list)}?per_page=100`),
    delivery: (webhook: string, entry: string) => request("GET", at(webhook, deliveries?.list, entry)),
    redeliver: (webhook: string, entry: string) =>
      request("POST", at(webhook, deliveries?.list, entry, deliveries?.again)),
  };
}

/** The request that sets the result of a build, with the token in its headers; undefined where the API takes none. */
export function statusRequest(api: Api | undefined, repository: Repository, result: BuildResult, token: string) {
  if (api?.status === undefined) return undefined;
  const { path, body, longest = 255 } = api.status;
  const characters = [...result.reason];
  const cut = characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : result.reason;
  return {
    url: `${api.base(repository)}/${path(result.commit)}`,
    headers: api.authorization(token),
    body: body({ ...result, reason: cut }, repository),
  };
}

/** The webhooks of a list, which Bitbucket has in an object. */
export const readWebhooks = ({ settings }: WebhookApi, body: unknown): Webhook[] =>
  listOf(Array.isArray(body) ? body : objectOf(body).values).map((one) => ({
    id: textOf(one.uuid ?? one.id),
    url: textOf(objectOf(one.config).url ?? one.url),
    settings: settings(one),
  }));

/** Names as segments of a URL. */
export const segments = (names: readonly string[]): string => names.map(encodeURIComponent).join("/");

export const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";
export const onOrOff = (value: unknown): string => (value === true ? "on" : "off");
export const eventsOf = (value: unknown): string => (Array.isArray(value) ? value.map(textOf).sort().join(", ") : "");

/** Names in lower case; a list of values as one text. */
export const headersOf = (value: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(objectOf(value)).map(([name, text]) => [
      name.toLowerCase(),
      Array.isArray(text) ? text.join(", ") : textOf(text),
    ]),
  );

/** Without headers there was no answer: a git host writes a status of its own there, such as GitHub's 502. */
export function recordedAnswer(status: unknown, headers: unknown, body: unknown): RecordedAnswer {
  const all = headersOf(headers);
  if (Object.keys(all).length === 0) return { status: 0, headers: {} };
  return { status: Number(status) || 0, headers: all, ...(typeof body === "string" && { body }) };
}

/** The address with rel="next" of a Link header (RFC 8288). */
export const nextLink = ({ headers }: ApiAnswer): string | undefined =>
  /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(headers.link ?? "")?.[1];

/** The address with another parameter. */
export function withParameter(address: string, name: string, value: number): string {
  const url = new URL(address);
  url.searchParams.set(name, String(value));
  return url.href;
}
