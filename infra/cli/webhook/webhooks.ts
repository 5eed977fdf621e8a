/** The requests of service/git-hosts, sent with the operator's token (decision 030), which no printed text holds. */
import { setTimeout as sleep } from "node:timers/promises";
import { exchange, ofApi } from "../../../service/exchange.ts";
import type { ApiAnswer, ApiRequest, Recorded, Wanted, Webhook } from "../../../service/git-hosts/api/api.ts";
import { nextLink, readWebhooks, webhookRequests } from "../../../service/git-hosts/api/api.ts";
import { apis } from "../../../service/git-hosts/api/index.ts";
import { listOf, objectOf } from "../../../service/git-hosts/payload.ts";
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { pauseOf } from "../../../service/pause.ts";
import { printable } from "../../../service/printable.ts";
import { tried } from "../../../service/tried.ts";
import type { Hook } from "../../config/settings.ts";
import { UserError } from "../../user-error.ts";
import { type Endpoint, nameOfEndpoint, wantedOf } from "../endpoints.ts";

export type Named = Pick<Hook, "name" | "gitHost" | "repository">;

export function serverOf({ gitHost, repository }: Named) {
  const whole = apis[gitHost];
  if (whole === undefined) return undefined;
  const { webhooks: api, authorization, variable } = whole;
  const at = repositoryOf(repository);
  const needs = `a token with ${JSON.stringify(api.permission)} in ${variable}, made at ${api.tokenPage}`;
  const { origin } = new URL(whole.base(at));
  return { api, authorization, variable, needs, origin, requests: webhookRequests(whole, at) };
}

/** Why pushgate cannot use this part of the git host's API: there is none, or its token is not in the environment. */
export function whyNot(hook: Named, part: "settings" | "ping" | "deliveries"): string {
  const server = serverOf(hook);
  if (server === undefined) return `${hook.name}: ${hook.gitHost} has no API for webhooks.`;
  if (server.api[part] === undefined) return `${hook.name}: ${server.api.lacks.join(" ")}`;
  return `${hook.name} needs ${server.needs}. Run: export ${server.variable}=<token>`;
}

export function assertOneOrigin(hooks: readonly Named[]): void {
  const servers = hooks.flatMap((hook) => clientOf(hook)?.server ?? []);
  for (const [variable, group] of Map.groupBy(servers, (server) => server.variable)) {
    const origins = [...new Set(group.map(({ origin }) => origin))];
    if (origins.length > 1)
      throw new UserError(`${variable} would be sent to ${origins.join(" and to ")}. Name one hook, with its token.`);
  }
}

export function clientOf(hook: Named): WebhookClient | undefined {
  const server = serverOf(hook);
  const token = server && process.env[server.variable]?.trim();
  return token ? clientWith(hook, server, token) : undefined;
}

export function leadsTo(url: string, wanted: string): boolean {
  const parts = (text: string): string => {
    const { hostname, pathname } = new URL(text);
    return `${hostname}${pathname.replace(/\/+$/, "")}`;
  };
  return URL.canParse(url) && parts(url) === parts(wanted);
}

export async function sourceOf(client: WebhookClient, endpoint: Endpoint) {
  const [webhook] = await client.own(endpoint);
  if (webhook !== undefined) return { endpoint, client, webhook };
  throw new UserError(
    `${nameOfEndpoint(endpoint)}: ${endpoint.hook.repository} has no webhook to ${endpoint.url}. Run npx pushgate hook ${endpoint.hook.name} --set.`,
  );
}

export type Source = Awaited<ReturnType<typeof sourceOf>>;

type Difference = Readonly<Record<"name" | "before" | "after", string>>;

export const differences = (found: Webhook["settings"], wanted: Webhook["settings"]): Difference[] =>
  Object.entries(wanted)
    .filter(([name, value]) => found[name] !== undefined && found[name] !== value)
    .map(([name, after]) => ({ name, before: found[name]!, after }));

/** "events: push, issues -> push" */
export const textOf = ({ name, before, after }: Difference): string => `${name}: ${printable(before)} -> ${after}`;

/** What differs between a webhook and what pushgate would set. */
export function drift(client: WebhookClient, found: Webhook, endpoint: Endpoint): Difference[] {
  const url = found.url === endpoint.url ? [] : [{ name: "URL", before: found.url, after: endpoint.url }];
  return [...url, ...differences(found.settings, client.api.wanted(wantedOf(endpoint)))];
}

/** Milliseconds until a rate limit ends. */
const longestPause = 60_000;

export type WebhookClient = ReturnType<typeof clientWith>;

function clientWith(hook: Named, server: NonNullable<ReturnType<typeof serverOf>>, token: string) {
  const { api, authorization, requests, variable } = server;

  async function pages<T>(
    first: ApiRequest,
    read: (body: unknown) => T[],
    enough: (one: T, count: number) => boolean = () => false,
  ): Promise<T[]> {
    const all: T[] = [];
    let url: string | undefined = first.url;
    for (let page = 0; url !== undefined && page < 100; page++) {
      const answer: ApiAnswer = await send({ ...first, url });
      for (const one of read(answer.body)) {
        all.push(one);
        if (enough(one, all.length)) return all;
      }
      url = (api.next ?? nextLink)(answer, url);
    }
    return all;
  }

  async function send(request: ApiRequest, secret = "", accepted: readonly number[] = []): Promise<ApiAnswer> {
    for (let tries = 0; ; tries++) {
      const answer = await once(request);
      const { status, body } = answer;
      const isDone = status >= 200 && status < 300;
      // An empty list of webhooks would have pushgate create a second one.
      if (isDone && typeof body === "string" && body !== "")
        throw new UserError(
          `the answer of ${server.origin} (${status}) is not JSON, or is larger than 16 MiB. Check hooks[].repository, and whether a proxy with a login answers for the git host.`,
        );
      if (isDone || accepted.includes(status)) return answer;
      const limit = pauseOf(answer) ?? (status === 429 ? longestPause : undefined);
      if (limit === undefined || tries === 3) throw new UserError(faultOf(answer, secret));
      if (limit > longestPause)
        throw new UserError(
          `${server.origin} accepts no more requests with ${variable} for ${Math.ceil(limit / 60_000)} min. Run the command again then.`,
        );
      const pause = Math.max(limit, 1_000);
      console.error(`${server.origin} has pushgate wait ${Math.ceil(pause / 1000)} s.`);
      await sleep(pause);
    }
  }

  async function once({ method, url, body }: ApiRequest): Promise<ApiAnswer> {
    const { origin } = server;
    if (!url.startsWith(`${origin}/`))
      throw new UserError(`${origin} names a page at ${printable(url, 100)}. The token is not sent there.`);
    const headers = { accept: "application/json", ...authorization(token) };
    const outgoing = { url, method, headers, body: JSON.stringify(body) };
    const { text, ...answer } = await exchange(outgoing, ofApi).catch((error: Error) => {
      throw new UserError(`${origin} does not answer (${error.message}).`);
    });
    // Go programs can write an empty list as null.
    return { ...answer, body: tried(() => JSON.parse(text) ?? []) ?? text };
  }

  function faultOf({ status, body }: ApiAnswer, secret: string): string {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const said = text.replaceAll(token, "…").replaceAll(secret || token, "…");
    const short = printable(said.replace(/\s+/g, " "), 300);
    const answered = `${server.origin} answered ${status}${short && ` ${short}`}`;
    if (status === 401) return `${answered}. ${variable} is no valid token: make one at ${api.tokenPage}.`;
    if (status === 403 || status === 404)
      return `${answered}. ${variable} needs ${JSON.stringify(api.permission)} for ${hook.repository}.`;
    if (status >= 300 && status < 400)
      return `${answered}, a redirect, which is not followed: correct hooks[].repository.`;
    return `${answered}.`;
  }

  return {
    ...{ hook, server, api },
    /** The newest first: a new webhook may have taken the place of one of several. Bitbucket Cloud's ids have no order. */
    async own({ url }: Pick<Wanted, "url">): Promise<Webhook[]> {
      const all = await pages(requests.list, (body) => readWebhooks(api, body));
      return all.filter((one) => leadsTo(one.url, url)).sort((a, b) => Number(b.id) - Number(a.id));
    },
    async set(own: Webhook | undefined, wanted: Wanted): Promise<void> {
      const changes = own === undefined ? [requests.create(wanted)] : requests.correct(own.id, wanted);
      for (const change of changes) await send(change, wanted.secret);
    },
    ping: ({ id }: Webhook, { secret }: Wanted) => send(requests.ping(id), secret, api.ping?.rejected),
    recorded({ id }: Webhook, enough: (one: Recorded, count: number) => boolean): Promise<Recorded[]> {
      const { read } = api.deliveries!;
      return pages(requests.deliveries(id), (body) => listOf(body).map(read), enough);
    },
    async answer({ id }: Webhook, entry: Recorded) {
      if (entry.answer !== undefined) return entry.answer;
      const { body } = await send(requests.delivery(id, entry.id));
      return api.deliveries!.answer!(objectOf(body));
    },
    redeliver: ({ id }: Webhook, entry: Recorded) => send(requests.redeliver(id, entry.id)),
  };
}
