/**
 * The requests of service/git-hosts, sent with the operator's token.
 * - The token goes to the origin of the repository's API and nowhere else: no redirect is followed, and a following page
 *   must be at the same origin. It is in no text: an answer that repeats it is printed without it.
 * - Answers are untrusted: they lose their control characters where they are printed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiAnswer, ApiRequest, Recorded, Wanted, Webhook } from "../../../service/git-hosts/api/api.ts";
import { nextLink, readWebhooks, webhookRequests } from "../../../service/git-hosts/api/api.ts";
import { apis } from "../../../service/git-hosts/api/index.ts";
import { listOf, objectOf } from "../../../service/git-hosts/payload.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { pauseOf } from "../../../service/pause.ts";
import { printable } from "../../../service/printable.ts";
import type { Hook } from "../../config/settings.ts";
import { UserError } from "../../user-error.ts";
import { type Endpoint, nameOfEndpoint } from "../endpoints.ts";

export type Named = Pick<Hook, "name" | "gitHost" | "repository">;

export function serverOf({ gitHost, repository }: Named) {
  const whole = apis[gitHost];
  if (whole === undefined) return undefined;
  const { webhooks: api, authorization } = whole;
  const at = repositoryOf(repository);
  const variable = whole.variable(at);
  const needs = `a token with ${JSON.stringify(api.permission)} in ${variable}, made at ${api.tokenPage}`;
  const { origin } = new URL(whole.base(at));
  return { api, authorization, variable, needs, origin, requests: webhookRequests(whole, at) };
}
type Server = NonNullable<ReturnType<typeof serverOf>>;

/** Why pushgate cannot use this part of the git host's API: there is none, or its token is not in the environment. */
export function whyNot(hook: Named, part: "settings" | "ping" | "deliveries"): string {
  const server = serverOf(hook);
  if (server === undefined) return `${hook.name}: ${hook.gitHost} has no API for webhooks.`;
  if (server.api[part] === undefined) return `${hook.name}: ${server.api.lacks.join(" ")}`;
  return `${hook.name} needs ${server.needs}. Run: export ${server.variable}=<token>`;
}

/** A token of one server is not to be shown to another. */
export function assertOneOrigin(hooks: readonly Named[]): void {
  const servers = hooks.flatMap((hook) => clientOf(hook)?.server ?? []);
  for (const [variable, group] of Map.groupBy(servers, (server) => server.variable)) {
    const origins = [...new Set(group.map(({ origin }) => origin))];
    if (origins.length > 1)
      throw new UserError(`${variable} would be sent to ${origins.join(" and to ")}. Name one hook, with its token.`);
  }
}

/** undefined where the git host has no API, or its token is not in the environment. */
export function clientOf(hook: Named): WebhookClient | undefined {
  const server = serverOf(hook);
  const token = server && process.env[server.variable]?.trim();
  return token ? new WebhookClient(hook, server, token) : undefined;
}

/** Whether a webhook leads to this URL's host and path, however it is written. */
export function leadsTo(url: string, wanted: string): boolean {
  const parts = (text: string): string => {
    const { hostname, pathname } = new URL(text);
    return `${hostname}${pathname.replace(/\/+$/, "")}`;
  };
  return URL.canParse(url) && parts(url) === parts(wanted);
}

export async function ownWebhook(client: WebhookClient, endpoint: Endpoint): Promise<Webhook> {
  const [own] = await client.own(endpoint);
  if (own !== undefined) return own;
  throw new UserError(
    `${nameOfEndpoint(endpoint)}: ${endpoint.hook.repository} has no webhook to ${endpoint.url}. Run npx pushgate hook ${endpoint.hook.name} --set.`,
  );
}

/** "events: push, pull_request -> push" */
export const differences = (found: Webhook["settings"], wanted: Webhook["settings"]): string[] =>
  Object.entries(wanted)
    .filter(([name, value]) => found[name] !== undefined && found[name] !== value)
    .map(([name, value]) => `${name}: ${printable(found[name]!)} -> ${value}`);

/** Milliseconds until a rate limit ends. */
const longestPause = 60_000;

export class WebhookClient {
  readonly hook: Named;
  readonly server: Server;
  readonly api: Server["api"];
  private readonly token: string;

  constructor(hook: Named, server: Server, token: string) {
    this.hook = hook;
    this.server = server;
    this.api = server.api;
    this.token = token;
  }

  /** The webhooks with this URL; pushgate has no other way to know its own. */
  async own({ url }: Pick<Wanted, "url">): Promise<Webhook[]> {
    const all = await this.pages(this.server.requests.list, (body) => readWebhooks(this.api, body));
    return all.filter((one) => leadsTo(one.url, url));
  }

  async set(own: Webhook | undefined, wanted: Wanted): Promise<void> {
    const { create, correct } = this.server.requests;
    const requests = own === undefined ? [create(wanted)] : correct(own.id, wanted);
    for (const request of requests) await this.send(request, wanted.secret);
  }

  async ping({ id }: Webhook, wanted: Wanted): Promise<void> {
    await this.send(this.server.requests.ping(id), wanted.secret, this.api.ping?.rejected);
  }

  async recorded({ id }: Webhook, enough: (one: Recorded, count: number) => boolean): Promise<Recorded[]> {
    const { read } = this.api.deliveries!;
    return this.pages(this.server.requests.deliveries(id), (body) => listOf(body).map(read), enough);
  }

  async answer({ id }: Webhook, entry: Recorded) {
    if (entry.answer !== undefined) return entry.answer;
    const { body } = await this.send(this.server.requests.delivery(id, entry.id));
    return this.api.deliveries!.answer!(objectOf(body));
  }

  async redeliver({ id }: Webhook, entry: Recorded): Promise<void> {
    await this.send(this.server.requests.redeliver(id, entry.id));
  }

  private async pages<T>(
    first: ApiRequest,
    read: (body: unknown) => T[],
    enough: (one: T, count: number) => boolean = () => false,
  ): Promise<T[]> {
    const all: T[] = [];
    let url: string | undefined = first.url;
    for (let page = 0; url !== undefined && page < 100; page++) {
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
    const { origin, variable } = this.server;
    for (let tries = 0; ; tries++) {
      const answer = await this.once(request);
      const { status } = answer;
      if ((status >= 200 && status < 300) || accepted.includes(status)) return answer;
      const limit = pauseOf(answer) ?? (status === 429 ? longestPause : undefined);
      if (limit === undefined || tries === 3) throw new UserError(this.faultOf(answer, secret));
      if (limit > longestPause)
        throw new UserError(
          `${origin} accepts no more requests with ${variable} for ${Math.ceil(limit / 60_000)} min. Run the command again then.`,
        );
      const pause = Math.max(limit, 1_000);
      console.error(`${origin} has pushgate wait ${Math.ceil(pause / 1000)} s.`);
      await sleep(pause);
    }
  }

  private async once({ method, url, body }: ApiRequest): Promise<ApiAnswer> {
    const { origin, authorization } = this.server;
    if (new URL(url).origin !== origin)
      throw new UserError(`${origin} names a page at ${new URL(url).origin}. The token is not sent there.`);
    const json = body === undefined ? {} : { "content-type": "application/json" };
    try {
      const answer = await fetch(url, {
        method,
        headers: { accept: "application/json", "user-agent": "pushgate", ...authorization(this.token), ...json },
        redirect: "manual",
        signal: AbortSignal.timeout(20_000),
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      return { status: answer.status, headers: Object.fromEntries(answer.headers), body: parsed(text) };
    } catch (error) {
      const { cause, message } = error as Error;
      throw new UserError(`${origin} does not answer (${(cause as Error | undefined)?.message ?? message}).`);
    }
  }

  private faultOf({ status, body }: ApiAnswer, secret: string): string {
    const { origin, variable } = this.server;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const said = text.replaceAll(this.token, "…").replaceAll(secret || this.token, "…");
    const short = printable(said.replace(/\s+/g, " "), 300);
    const answered = `${origin} answered ${status}${short && ` ${short}`}`;
    if (status === 401) return `${answered}. ${variable} is no valid token: make one at ${this.api.tokenPage}.`;
    if (status === 403 || status === 404)
      return `${answered}. ${variable} needs ${JSON.stringify(this.api.permission)} for ${this.hook.repository}.`;
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
