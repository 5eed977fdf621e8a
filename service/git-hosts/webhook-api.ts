/** What the git hosts' APIs for webhooks have in common: requests out, answers in. Nothing here connects. */
import { objectOf } from "./payload.ts";
import type { Repository } from "./repository.ts";

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
  readonly headers: Readonly<Record<string, string>>;
  /** Parsed JSON; untrusted. */
  readonly body: unknown;
};

export type Wanted = { readonly url: string; readonly secret: string };

/** A webhook as the API shows it. */
export type Webhook = {
  readonly id: string;
  readonly url: string;
  /** Names and values for a person: "events" -> "push". A setting that the API does not show is absent. */
  readonly settings: Settings;
};
export type Settings = Readonly<Record<string, string>>;

/** The answer that the git host got; its shape is that of `Answer` in infra/trace/evidence.ts. */
export type RecordedAnswer = {
  /** 0 where the git host got no answer. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** One attempt at a delivery, as its delivery history has it. */
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

/** The git host's delivery history. */
export type Deliveries = {
  /** Days that the history reaches back. */
  readonly days: number;
  /** The newest first; `next` of the API has the following page. */
  readonly list: (repository: Repository, webhook: string) => ApiRequest;
  readonly read: (body: unknown) => Recorded[];
  /** Where a list does not have the answers: the request for one, and how to read it. */
  readonly one?: {
    readonly request: (repository: Repository, webhook: string, id: string) => ApiRequest;
    readonly read: (body: unknown) => RecordedAnswer;
  };
  readonly redeliver: (repository: Repository, webhook: string, id: string) => ApiRequest;
};

export type WebhookApi = {
  /** The variable of the environment with the token. */
  readonly variable: (repository: Repository) => string;
  /** Where a person makes the token, and its least permission. */
  readonly tokenPage: string;
  readonly permission: string;
  readonly authorization: (token: string) => Readonly<Record<string, string>>;
  readonly list: (repository: Repository) => ApiRequest;
  readonly read: (body: unknown) => Webhook[];
  /** The address of a list's following page. */
  readonly next: (answer: ApiAnswer, asked: string) => string | undefined;
  /** The settings that `create` makes, as `read` shows them. */
  readonly wanted: (wanted: Wanted) => Settings;
  /** The whole configuration with the secret, as with `correct`: a list shows a masked secret or none. */
  readonly create: (repository: Repository, wanted: Wanted) => ApiRequest;
  readonly correct: (repository: Repository, webhook: string, wanted: Wanted) => readonly ApiRequest[];
  /** A webhook that the git host has switched off is on again once a ping has arrived. */
  readonly pingActivates?: true;
  /** Has the git host send a delivery now. */
  readonly ping?: {
    readonly request: (repository: Repository, webhook: string, wanted: Wanted) => ApiRequest;
    /** What the git host sends, where that is no ping. */
    readonly sends?: string;
    /** Statuses, beside 2xx, with which the API answers where the delivery was rejected. */
    readonly rejected?: readonly number[];
  };
  readonly deliveries?: Deliveries;
  /** One line for each thing that pushgate wants and the API does not have. */
  readonly lacks: readonly string[];
};

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

/**
 * The answer of an entry of the history. Without headers there was none: a git host writes a status of its own there, such as GitHub's
 * 502 for "failed to connect".
 */
export function recordedAnswer(status: unknown, headers: unknown, body: unknown): RecordedAnswer {
  const all = headersOf(headers);
  if (Object.keys(all).length === 0) return { status: 0, headers: {} };
  return { status: Number(status) || 0, headers: all, ...(typeof body === "string" && { body }) };
}

/** The address with rel="next" of a Link header (RFC 8288). */
export const nextLink = ({ headers }: ApiAnswer): string | undefined =>
  /<([^>]+)>\s*;[^,]*\brel="?next"?/.exec(headers.link ?? "")?.[1];
