/**
 * Webhooks and deliveries in the git hosts' own words: the requests of service/git-hosts, sent with the operator's token.
 * - The token goes to the origin of the repository's API and nowhere else: no redirect is followed, and a following page
 *   must be at the same origin.
 * - It is in no text: an answer that repeats it is printed without it.
 * - Answers are untrusted: they lose their control characters where they are printed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ApiAnswer,
  type ApiRequest,
  nextLink,
  type Recorded,
  type RecordedAnswer,
  readWebhooks,
  type Settings,
  type Wanted,
  type Webhook,
  type WebhookApi,
  webhookRequests,
} from "../../../service/git-hosts/api/api.ts";
import { apis } from "../../../service/git-hosts/api/index.ts";
import { listOf, objectOf } from "../../../service/git-hosts/payload.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { pauseOf } from "../../../service/pause.ts";
import { printable } from "../../../service/printable.ts";
import type { Hook } from "../../config/settings.ts";
import { type Endpoint, nameOfEndpoint } from "../endpoints.ts";
import { UserError } from "../stack.ts";

/** A git host's token in the environment. It is stored nowhere and sent to one origin. */
export const tokenIn = (variable: string): string | undefined => process.env[variable]?.trim() || undefined;

export type Named = Pick<Hook, "name" | "gitHost" | "repository">;

/** The API of a hook's git host, and what a person does to let pushgate use it. */
export function apiOf({ gitHost, repository }: Named) {
  const whole = apis[gitHost];
  if (whole === undefined) return undefined;
  const { webhooks: api, authorization } = whole;
  const at = repositoryOf(repository);
  const variable = whole.variable(at);
  const permission = JSON.stringify(api.permission);
  const needs = `a token with ${permission} in ${variable}, made at ${api.tokenPage}`;
  const makes = `a token with ${permission}, made at ${api.tokenPage}`;
  const { origin } = new URL(whole.base(at));
  return { api, requests: webhookRequests(whole, at), authorization, variable, needs, makes, origin };
}

/**
 * Throws a UserError where one variable's token would go to several origins: a token of one server is not to be shown to
 * another.
 */
export function assertOneOrigin(hooks: readonly Named[]): void {
  const of = hooks.map(apiOf).filter((one) => one !== undefined && tokenIn(one.variable) !== undefined);
  for (const [variable, apis] of Map.groupBy(of, (one) => one!.variable)) {
    const origins = [...new Set(apis.map((one) => one!.origin))];
    if (origins.length > 1)
      throw new UserError(`${variable} would be sent to ${origins.join(" and to ")}. Name one hook, with its token.`);
  }
}

/** undefined where the git host has no API, or its token is not in the environment. */
export function clientOf(hook: Named): WebhookClient | undefined {
  const found = apiOf(hook);
  const token = found && tokenIn(found.variable);
  return token === undefined ? undefined : new WebhookClient(hook, token);
}

export function neededClient(hook: Named, what: string): WebhookClient {
  const found = apiOf(hook);
  if (found === undefined)
    throw new UserError(`${hook.name}: ${hook.gitHost} has no API for webhooks, so pushgate cannot ${what}.`);
  const client = clientOf(hook);
  if (client !== undefined) return client;
  throw new UserError(
    `${found.variable} is not set, so pushgate cannot ${what}. Make ${found.makes}, then: export ${found.variable}=<token>`,
  );
}

/** Whether a webhook leads to this URL's host and path, however it is written. */
export function leadsTo(url: string, wanted: string): boolean {
  const parts = (text: string): string => {
    const { hostname, pathname } = new URL(text);
    return `${hostname}${pathname.replace(/\/+$/, "")}`;
  };
  return URL.canParse(url) && parts(url) === parts(wanted);
}

/** Throws a UserError where the git host has no webhook for this endpoint. */
export async function ownWebhook(client: WebhookClient, endpoint: Endpoint): Promise<Webhook> {
  const [own] = await client.own(endpoint);
  if (own !== undefined) return own;
  throw new UserError(
    `${nameOfEndpoint(endpoint)}: ${endpoint.hook.repository} has no webhook to ${endpoint.url}. Run npx pushgate hook ${endpoint.hook.name} --set.`,
  );
}

/** "events: push, pull_request -> push" */
export const differences = (found: Settings, wanted: Settings): string[] =>
  Object.entries(wanted)
    .filter(([name, value]) => found[name] !== undefined && found[name] !== value)
    .map(([name, value]) => `${name}: ${printable(found[name]!)} -> ${value}`);

/** Milliseconds that the command waits for one answer. */
const patience = 20_000;
/** Milliseconds that the command waits for a rate limit to end. */
const longestPause = 60_000;
/** Requests at once. */
const width = 8;
/** Pages of a list. */
const mostPages = 100;

type Found = NonNullable<ReturnType<typeof apiOf>>;

export class WebhookClient {
  readonly hook: Named;
  readonly api: WebhookApi;
  readonly variable: string;
  private readonly requests: Found["requests"];
  private readonly headers: Readonly<Record<string, string>>;
  private readonly origin: string;
  private readonly token: string;

  constructor(hook: Named, token: string) {
    this.hook = hook;
    this.token = token;
    const { api, requests, authorization, variable, origin } = apiOf(hook)!;
    this.api = api;
    this.requests = requests;
    this.headers = { accept: "application/json", ...authorization(token), "user-agent": "pushgate" };
    this.variable = variable;
    this.origin = origin;
  }

  /** The webhooks with this URL; pushgate has no other way to know its own. */
  async own({ url }: Pick<Wanted, "url">): Promise<Webhook[]> {
    const all = await this.pages(
      this.requests.list,
      (body) => readWebhooks(this.api, body),
      () => false,
    );
    return all.filter((one) => leadsTo(one.url, url));
  }

  async create(wanted: Wanted): Promise<void> {
    await this.send(this.requests.create(wanted), wanted.secret);
  }

  async correct({ id }: Webhook, wanted: Wanted): Promise<void> {
    for (const request of this.requests.correct(id, wanted)) await this.send(request, wanted.secret);
  }

  async ping({ id }: Webhook, wanted: Wanted): Promise<void> {
    const { ping } = this.api;
    if (ping === undefined) throw new UserError(this.lacks());
    await this.send(this.requests.ping(id), wanted.secret, ping.rejected);
  }

  /** The newest first, until one satisfies `enough`. */
  async recorded({ id }: Webhook, enough: (one: Recorded, count: number) => boolean): Promise<Recorded[]> {
    const { read } = this.deliveries();
    return this.pages(this.requests.deliveries(id), (body) => listOf(body).map(read), enough);
  }

  /** The answers to these, in their order. */
  async answers({ id }: Webhook, entries: readonly Recorded[]): Promise<RecordedAnswer[]> {
    const { answer: read } = this.deliveries();
    const answers: RecordedAnswer[] = [];
    const next = entries.entries();
    const work = async (): Promise<void> => {
      for (const [i, { answer, id: entry }] of next) {
        if (answer !== undefined) answers[i] = answer;
        else if (read) answers[i] = read(objectOf((await this.send(this.requests.delivery(id, entry))).body));
      }
    };
    await Promise.all(Array.from({ length: width }, work));
    return answers;
  }

  async redeliver({ id }: Webhook, entry: Recorded): Promise<void> {
    this.deliveries();
    await this.send(this.requests.redeliver(id, entry.id));
  }

  hasHistory(): boolean {
    return this.api.deliveries !== undefined;
  }

  lacks(): string {
    return `${this.hook.name}: ${this.api.lacks.join(" ")}`;
  }

  /** Throws a UserError where the API has none. */
  private deliveries(): NonNullable<WebhookApi["deliveries"]> {
    if (this.api.deliveries === undefined) throw new UserError(this.lacks());
    return this.api.deliveries;
  }

  private async pages<T>(first: ApiRequest, read: (body: unknown) => T[], enough: (one: T, count: number) => boolean) {
    const all: T[] = [];
    let url: string | undefined = first.url;
    for (let page = 0; url !== undefined && page < mostPages; page++) {
      const answer: ApiAnswer = await this.send({ ...first, url });
      for (const one of read(answer.body)) {
        all.push(one);
        if (enough(one, all.length)) return all;
      }
      url = (this.api.next ?? nextLink)(answer, url);
    }
    return all;
  }

  /** Waits where the API wants that for a short time. Throws a UserError for a status that is neither 2xx nor accepted. */
  private async send(request: ApiRequest, secret = "", accepted: readonly number[] = []): Promise<ApiAnswer> {
    for (let tries = 0; ; tries++) {
      const answer = await this.once(request);
      const limit = pauseOf(answer) ?? (answer.status === 429 ? longestPause : undefined);
      if (limit === undefined || tries === 3) {
        if ((answer.status >= 200 && answer.status < 300) || accepted.includes(answer.status)) return answer;
        throw new UserError(this.faultOf(answer, secret));
      }
      const pause = Math.max(limit, 1_000);
      if (pause > longestPause)
        throw new UserError(
          `${this.origin} accepts no more requests with ${this.variable} for ${Math.ceil(pause / 60_000)} min. Run the command again then.`,
        );
      console.error(`${this.origin} has pushgate wait ${Math.ceil(pause / 1000)} s.`);
      await sleep(pause);
    }
  }

  private async once({ method, url, body }: ApiRequest): Promise<ApiAnswer> {
    if (new URL(url).origin !== this.origin)
      throw new UserError(`${this.origin} names a page at ${new URL(url).origin}. The token is not sent there.`);
    const json = body === undefined ? {} : { "content-type": "application/json" };
    try {
      const answer = await fetch(url, {
        method,
        headers: { ...this.headers, ...json },
        redirect: "manual",
        signal: AbortSignal.timeout(patience),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      return { status: answer.status, headers: Object.fromEntries(answer.headers), body: parsed(text) };
    } catch (error) {
      const { cause, message } = error as Error;
      throw new UserError(`${this.origin} does not answer (${(cause as Error | undefined)?.message ?? message}).`);
    }
  }

  private faultOf({ status, body }: ApiAnswer, secret: string): string {
    const text = typeof body === "string" ? body : (JSON.stringify(body) ?? "");
    const said = text.replaceAll(this.token, "…").replaceAll(secret || this.token, "…");
    const short = printable(said.replace(/\s+/g, " "), 300);
    const answered = `${this.origin} answered ${status}${short === "" ? "" : ` ${short}`}`;
    if (status === 401) return `${answered}. ${this.variable} is no valid token: make one at ${this.api.tokenPage}.`;
    if (status === 403 || status === 404)
      return `${answered}. ${this.variable} needs ${JSON.stringify(this.api.permission)} for ${this.hook.repository}.`;
    if (status >= 300 && status < 400)
      return `${answered}, a redirect, which is not followed: correct hooks[].repository.`;
    return `${answered}.`;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
