/**
 * Webhooks and deliveries in the git hosts' own words: the requests of service/git-hosts, sent with the operator's token.
 * - The token goes to the origin of the repository's API and nowhere else: no redirect is followed, and a following page
 *   must be at the same origin.
 * - It is in no text: an answer that repeats it is printed without it.
 * - Answers are untrusted: they lose their control characters where they are printed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { gitHosts, repositoryOf } from "../../../service/git-hosts/index.ts";
import { pauseOf } from "../../../service/git-hosts/rate-limit.ts";
import type {
  ApiAnswer,
  ApiRequest,
  Deliveries,
  Recorded,
  RecordedAnswer,
  Settings,
  Wanted,
  Webhook,
  WebhookApi,
} from "../../../service/git-hosts/webhook-api.ts";
import { printable } from "../../apply/report.ts";
import type { Hook } from "../../config/settings.ts";
import { type Endpoint, nameOfEndpoint } from "../endpoints.ts";
import { UserError } from "../stack.ts";

/** A git host's token in the environment. It is stored nowhere and sent to one origin. */
export const tokenIn = (variable: string): string | undefined => process.env[variable]?.trim() || undefined;

export type Named = Pick<Hook, "name" | "gitHost" | "repository">;

/** The API of a hook's git host, and what a person does to let pushgate use it. */
export function apiOf({ gitHost, repository }: Named) {
  const api = gitHosts[gitHost].webhooks;
  if (api === undefined) return undefined;
  const at = repositoryOf(repository);
  const variable = api.variable(at);
  const needs = `a token with ${JSON.stringify(api.permission)} in ${variable}, made at ${api.tokenPage}`;
  return { api, at, variable, needs, origin: new URL(api.list(at).url).origin };
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
    `${found.variable} is not set, so pushgate cannot ${what}. Make ${found.needs.replace(` in ${found.variable}`, "")}, then: export ${found.variable}=<token>`,
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

export class WebhookClient {
  readonly hook: Named;
  readonly api: WebhookApi;
  readonly variable: string;
  private readonly at: ReturnType<typeof repositoryOf>;
  private readonly origin: string;
  private readonly token: string;

  constructor(hook: Named, token: string) {
    this.hook = hook;
    this.token = token;
    ({ api: this.api, at: this.at, variable: this.variable, origin: this.origin } = apiOf(hook)!);
  }

  /** The webhooks with this URL; pushgate has no other way to know its own. */
  async own({ url }: Pick<Wanted, "url">): Promise<Webhook[]> {
    const all = await this.pages(this.api.list(this.at), this.api.read, () => false);
    return all.filter((one) => leadsTo(one.url, url));
  }

  async create(wanted: Wanted): Promise<void> {
    await this.send(this.api.create(this.at, wanted), wanted.secret);
  }

  async correct({ id }: Webhook, wanted: Wanted): Promise<void> {
    for (const request of this.api.correct(this.at, id, wanted)) await this.send(request, wanted.secret);
  }

  async ping({ id }: Webhook, wanted: Wanted): Promise<void> {
    const { ping } = this.api;
    if (ping === undefined) throw new UserError(this.lacks());
    await this.send(ping.request(this.at, id, wanted), wanted.secret, ping.rejected);
  }

  /** The newest first, until one satisfies `enough`. */
  async recorded({ id }: Webhook, enough: (one: Recorded, count: number) => boolean): Promise<Recorded[]> {
    const { list, read } = this.deliveries();
    return this.pages(list(this.at, id), read, enough);
  }

  /** The answers to these, in their order. */
  async answers({ id }: Webhook, entries: readonly Recorded[]): Promise<RecordedAnswer[]> {
    const { one } = this.deliveries();
    const answers: RecordedAnswer[] = [];
    const next = entries.entries();
    const work = async (): Promise<void> => {
      for (const [i, { answer, id: entry }] of next) {
        if (answer !== undefined) answers[i] = answer;
        else if (one !== undefined) answers[i] = one.read((await this.send(one.request(this.at, id, entry))).body);
      }
    };
    await Promise.all(Array.from({ length: width }, work));
    return answers;
  }

  async redeliver({ id }: Webhook, entry: Recorded): Promise<void> {
    await this.send(this.deliveries().redeliver(this.at, id, entry.id));
  }

  hasHistory(): boolean {
    return this.api.deliveries !== undefined;
  }

  lacks(): string {
    return `${this.hook.name}: ${this.api.lacks.join(" ")}`;
  }

  private deliveries(): Deliveries {
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
      url = this.api.next(answer, url);
    }
    return all;
  }

  /** Waits where the API wants that for a short time. Throws a UserError for a status that is neither 2xx nor accepted. */
  private async send(request: ApiRequest, secret = "", accepted: readonly number[] = []): Promise<ApiAnswer> {
    for (let tries = 0; ; tries++) {
      const answer = await this.once(request);
      const pause = tries < 3 ? limitOf(answer) : undefined;
      if (pause === undefined) {
        if ((answer.status >= 200 && answer.status < 300) || accepted.includes(answer.status)) return answer;
        throw new UserError(this.faultOf(answer, secret));
      }
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
    const headers = { ...this.api.authorization(this.token), "user-agent": "pushgate" };
    const json = body === undefined ? {} : { "content-type": "application/json" };
    try {
      const answer = await fetch(url, {
        method,
        headers: { accept: "application/json", ...headers, ...json },
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
    const short = printable(said).replace(/\s+/g, " ").slice(0, 300);
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

/** Milliseconds; undefined where the answer is no rate limit. GitHub answers 403 or 429, the others 429. */
function limitOf({ status, headers }: ApiAnswer): number | undefined {
  const { "retry-after": after, "x-ratelimit-remaining": left } = headers;
  const isLimited = status === 429 || (status === 403 && (after !== undefined || left === "0"));
  return isLimited ? Math.max(pauseOf(headers) ?? longestPause, 1_000) : undefined;
}
