/** The form of a git host's API: what each family states as data, and the requests made of it. Answers are untrusted. */
import type { IncomingHttpHeaders } from "node:http";
import { type Json, listOf, objectOf } from "../payload.ts";
import type { Repository } from "../repository.ts";

type Texts = Readonly<Record<string, string>>;

export type Api = {
  readonly base: (repository: Repository) => string; // URL
  readonly variable: string; // the variable of the environment with the operator's token
  readonly authorization: (token: string) => Texts;
  readonly webhooks: WebhookApi;
  readonly status?: StatusApi; // absent where it takes no results of builds
};

export type WebhookApi = {
  readonly tokenPage: string; // where a person makes a token
  readonly permission: string; // that it needs
  readonly list: string; // its first page, below the repository's URL
  /** The address of a list's following page; absent where a Link header has it. */
  readonly next?: (answer: ApiAnswer, asked: string) => string | undefined;
  readonly settings: (webhook: Json) => Settings;
  readonly wanted: (wanted: Wanted) => Settings;
  /** All of it with the secret, each time: a list shows a masked secret or none. */
  readonly configuration: (wanted: Wanted) => object;
  readonly made?: object; // what a new webhook needs beside its configuration
  readonly change?: "PATCH" | "PUT"; // corrects a webhook; where it is absent a new one takes its place
  readonly pingActivates?: true; // A webhook that the git host has switched off is on again once a ping has arrived
  /** Has it send a delivery: `sends`, where that is no ping. `rejected`: its statuses for a rejected one, beside 2xx. */
  readonly ping?: { readonly path: string; readonly sends?: string; readonly rejected?: readonly number[] };
  readonly deliveries?: Deliveries;
  readonly lacks: readonly string[];
};

type Deliveries = {
  readonly days: number; // that it reaches back
  readonly list: string; // its list below the webhook's URL, and below an entry what has it sent again
  readonly again: string;
  readonly perPage: number; // entries, the most that the API gives
  readonly read: (entry: Json) => Recorded;
  readonly answer?: (entry: Json) => RecordedAnswer; // reads one entry's answer, where the list does not have it
};

export type StatusApi = {
  readonly tokenPage?: string; // where it is another one than that for webhooks
  readonly permission: string;
  readonly path: (commit: string) => string;
  readonly body: (result: BuildResult, repository: Repository) => Readonly<Record<string, string | undefined>>;
  readonly longest?: number; // characters of a reason that the API takes, 255 where it is absent
};

export type BuildResult = {
  readonly commit: string;
  readonly state: "pending" | "success" | "failure";
  readonly reason: string;
  readonly context: string; // which build this is: other programs set results on the same commit
  readonly url?: string | undefined; // the site's; absent where another web server serves it
};

/** Without the token. The body is sent as JSON. */
export type ApiRequest = Readonly<{ method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"; url: string; body?: unknown }>;

export type ApiAnswer = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: unknown };

export type Wanted = { readonly url: string; readonly secret: string };

export type Webhook = { readonly id: string; readonly url: string; readonly settings: Settings };
/** Names and values for a person: "events" -> "push". A setting that the API does not show is absent. */
export type Settings = Texts;

/** What the git host got, with status 0 where it got nothing. Names of headers are in lower case. */
export type RecordedAnswer = { readonly status: number; readonly headers: Texts; readonly body?: string };

export type Recorded = {
  readonly id: string; // the attempt's in the API
  readonly delivery: string; // the id in its header and in the hosts' logs, which all attempts share
  readonly kind: string;
  readonly isPing: boolean;
  readonly time?: string; // ISO 8601; absent where the history has no time
  readonly status: number; // 0 where the git host got no answer
  readonly answer?: RecordedAnswer; // where a list has it already
};

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
    deliveries: (webhook: string) => request("GET", `${at(webhook, deliveries?.list)}?per_page=${deliveries?.perPage}`),
    delivery: (webhook: string, entry: string) => request("GET", at(webhook, deliveries?.list, entry)),
    redeliver: (webhook: string, entry: string) =>
      request("POST", at(webhook, deliveries?.list, entry, deliveries?.again)),
  };
}

export function statusRequest(api: Api | undefined, repository: Repository, result: BuildResult, token: string) {
  if (api?.status === undefined) return undefined;
  const { path, body, longest = 255 } = api.status;
  const characters = [...result.reason];
  const reason = characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : result.reason;
  return {
    url: `${api.base(repository)}/${path(result.commit)}`,
    headers: api.authorization(token),
    body: body({ ...result, reason }, repository),
  };
}

export const readWebhooks = ({ settings }: WebhookApi, body: unknown): Webhook[] =>
  listOf(Array.isArray(body) ? body : objectOf(body).values).map((one) => ({
    id: textOf(one.uuid ?? one.id),
    url: textOf(objectOf(one.config).url ?? one.url),
    settings: settings(one),
  }));

export const segments = (names: readonly string[]): string => names.map(encodeURIComponent).join("/");

export const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";
export const onOrOff = (value: unknown): string => (value === true ? "on" : "off");
export const setOrNone = (value: unknown): string => (value === true || textOf(value) !== "" ? "set" : "none");
export const eventsOf = (value: unknown): string => (Array.isArray(value) ? value.map(textOf).sort().join(", ") : "");

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

export const nextLink = ({ headers }: ApiAnswer): string | undefined =>
  /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(`${headers.link}`)?.[1];

export function withParameter(address: string, name: string, value: number): string {
  const url = new URL(address);
  url.searchParams.set(name, String(value));
  return url.href;
}
