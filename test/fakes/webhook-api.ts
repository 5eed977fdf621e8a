/**
 * The APIs by which git hosts set webhooks and show what they delivered, one family for each form. They reject what the
 * real ones reject: a wrong token, one without the permission, unknown repositories, webhooks, fields and events, and a
 * second webhook that is the same as the first. A secret never leaves them. What they deliver goes through the function
 * that the test hands in, signed with the webhook's secret.
 */
import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { text as textOf } from "node:stream/consumers";
import type { GitHostName } from "../../service/git-hosts/index.ts";
import { type Delivery, pingPayload } from "./deliveries.ts";
import { startServerOf } from "./https-server.ts";
import { bytes, deliveryOf, type Headers, senders } from "./senders.ts";
import { StatusError } from "./status-error.ts";

export type Got = {
  /** 0 without an answer. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
};
export type Deliver = (sent: Delivery) => Promise<Got>;

export type StoredWebhook = {
  readonly id: number;
  readonly family: FamilyName;
  readonly repository: string;
  url: string;
  contentType: string;
  secret: string;
  events: string[];
  active: boolean;
  verifies: boolean;
};

export type Attempt = {
  readonly id: number;
  readonly webhook: number;
  /** The delivery's id in its header. */
  readonly delivery: string;
  readonly kind: string;
  readonly redelivery: boolean;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly sent: Delivery;
  readonly got: Got;
};

type Body = Readonly<Record<string, unknown>>;
/** `body`: a text as it is, and anything else as JSON. */
type Result = { readonly status: number; readonly body?: unknown; readonly headers?: OutgoingHttpHeaders };
type Further = Result | undefined | Promise<Result | undefined>;
type Asked = {
  /** As the client names it. */
  readonly origin: string;
  readonly method: string;
  /** What the path's pattern captured, decoded. */
  readonly parts: readonly string[];
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Body;
};

type Family = {
  /** Repository, then what follows it. */
  readonly path: RegExp;
  readonly tokenOf: (headers: IncomingHttpHeaders) => string | undefined;
  /** The method that corrects a webhook, where pushgate uses one. */
  readonly update?: "PATCH" | "PUT";
  readonly idOf?: (webhook: StoredWebhook) => string;
  readonly shown: (webhook: StoredWebhook) => object;
  readonly list: (asked: Asked, all: readonly object[]) => Result;
  /** The fields of a body. What it lacks or has beyond them is rejected with this status. */
  readonly fields: readonly [status: number, ...names: string[]];
  /** What a body wants of a webhook. */
  readonly wanted: (body: Body) => Partial<StoredWebhook>;
  readonly correct?: (webhook: StoredWebhook, wanted: Partial<StoredWebhook>) => void;
  /** Tests and the delivery history: what follows the webhook in the path. */
  readonly more?: (api: WebhookApi, asked: Asked, webhook: StoredWebhook, below: readonly string[]) => Further;
  /** What a delivery of this kind is, signed. Absent where no test has one. */
  readonly delivery?: (webhook: StoredWebhook, kind: string, id: string) => Delivery;
};

const problem = (status: number, message: string): Result => ({ status, body: { message } });
function need(isSo: boolean, status: number, message: string): asserts isSo {
  if (!isSo) throw new StatusError(status, message);
}
const text = (value: unknown): string => String(value ?? "");
const bearer = ({ authorization }: IncomingHttpHeaders) => /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
const objectOf = (value: unknown): Body => Object(value) as Body;
function needKnown(body: Body, [status, ...known]: Family["fields"]): void {
  for (const name of Object.keys(body)) need(known.includes(name), status, `${name} is unknown`);
}
/** Most families have these by the same names. */
const common = ({ url, events, active }: Body) => ({
  ...{ url: text(url), events: (events as string[] | undefined) ?? ["push"], active: active === true },
});

/** Lists, creates and corrects webhooks; the rest is the family's own. */
async function answerOf(api: WebhookApi, name: FamilyName, asked: Asked): Promise<Result> {
  const family: Family = families[name];
  const { idOf = ({ id }) => `${id}`, correct = Object.assign, shown } = family;
  const [repository = "", rest = ""] = asked.parts;
  const [, id, ...below] = rest.split("/");
  const all = api.webhooks.filter((one) => one.family === name && one.repository === repository);
  if (id === undefined && asked.method === "GET") return family.list(asked, all.map(shown));
  const webhook = all.find((one) => idOf(one) === id);
  need(id === undefined ? asked.method === "POST" : webhook !== undefined, 404, "Not Found");
  if (id !== undefined && (below.length > 0 || asked.method !== family.update))
    return (await family.more?.(api, asked, webhook!, below)) ?? problem(404, "Not Found");
  needKnown(asked.body, family.fields);
  const wanted = family.wanted(asked.body);
  if (webhook !== undefined) {
    correct(webhook, wanted);
    return { status: 200, body: shown(webhook) };
  }
  // GitHub rejects a second webhook of one URL, and pings each new one by itself.
  need(name !== "github" || all.every(({ url }) => url !== wanted.url), 422, "Hook already exists on this repository");
  const usual = { url: "", contentType: "json", secret: "", events: [], active: true, verifies: true };
  const made = api.add(name, repository, { ...usual, ...wanted });
  if (name === "github") void api.send(made, "ping");
  return { status: 201, body: shown(made) };
}

/** One page by its number, and the number of the next one, if any. */
function pageOf<T>({ query }: Asked, all: readonly T[], sizeName: string, largest: number) {
  const [size, page] = [Math.min(Number(query.get(sizeName) ?? 20), largest), Number(query.get("page") ?? 1)];
  const next = all.length > page * size ? page + 1 : undefined;
  return { values: all.slice((page - 1) * size, page * size), size, next };
}

/** A page whose Link header leads to the next one. */
function paged(asked: Asked, all: readonly object[]): Result {
  const { values, size, next } = pageOf(asked, all, "per_page", 100);
  const link = `<${asked.origin}${asked.path}?per_page=${size}&page=${next}>; rel="next"`;
  return { status: 200, body: values, ...(next && { headers: { link } }) };
}

const githubItem = ({ id, delivery, at, redelivery, kind, got }: Attempt) => ({
  ...{ id, guid: delivery, delivered_at: new Date(at).toISOString(), redelivery, duration: 0.27, event: kind },
  // It writes a status of its own where it got none.
  status_code: got.status === 0 ? 502 : got.status,
});

const shownHeaders = (headers: Got["headers"]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), text(value)]));

const github: Family = {
  path: /^(?:\/api\/v3)?\/repos\/([^/]+\/[^/]+)\/hooks(\/.*)?$/,
  tokenOf: bearer,
  update: "PATCH",
  shown: ({ id, active, events, contentType, verifies, url, secret }) => ({
    ...{ id, active, events },
    config: {
      ...{ content_type: contentType, insecure_ssl: verifies ? "0" : "1", url },
      ...(secret !== "" && { secret: "********" }),
    },
  }),
  list: paged,
  fields: [422, "name", "active", "events", "config", "add_events", "remove_events"],
  wanted({ name = "web", config: given, active, events }) {
    const config = objectOf(given);
    needKnown(config, [422, "url", "content_type", "secret", "insecure_ssl"]);
    need(name === "web", 422, "name is not web");
    const wanted = common({ url: config.url, events, active: active !== false });
    const known = ["push", "ping", "pull_request", "issues", "release", "*"];
    for (const event of wanted.events) need(known.includes(event), 422, `${event} is no event`);
    need(/^https?:\/\//.test(wanted.url), 422, "url is invalid");
    const { content_type, secret, insecure_ssl } = config;
    const verifies = text(insecure_ssl) !== "1";
    return { ...wanted, contentType: text(content_type) || "form", secret: text(secret), verifies };
  },
  more(api, { method, query, path, origin }, webhook, [what, attempt, again]) {
    if (what === "pings" && method === "POST") {
      void api.send(webhook, "ping");
      return { status: 204 };
    }
    if (what !== "deliveries") return undefined;
    const kept = api.attempts(webhook);
    if (attempt === undefined && method === "GET") {
      const size = Math.min(Number(query.get("per_page") ?? 30), 100);
      const from = kept.findIndex(({ id }) => `v1_${id}` === (query.get("cursor") ?? `v1_${id}`));
      const page = kept.slice(from, from + size);
      const next = kept[from + page.length];
      const link = `<${origin}${path}?per_page=${size}&cursor=v1_${next?.id}>; rel="next"`;
      return { status: 200, body: page.map(githubItem), ...(next && { headers: { link } }) };
    }
    const found = kept.find(({ id }) => `${id}` === attempt);
    if (found === undefined) return undefined;
    if (again === "attempts" && method === "POST") {
      void api.send(webhook, found.kind, found);
      return { status: 202, body: {} };
    }
    const { sent, got } = found;
    const request = { headers: shownHeaders(sent.headers), payload: JSON.parse(sent.body.toString()) };
    const response = { headers: shownHeaders(got.headers), payload: got.body };
    return { status: 200, body: { ...githubItem(found), url: webhook.url, request, response } };
  },
  delivery(webhook, kind, id) {
    const headers = { "x-github-event": kind, "x-github-delivery": id };
    return sentBy("github", webhook, headers, kind === "ping" ? pingPayload() : undefined);
  },
};

/** A push as the git host sends it, signed with the webhook's secret; `own`: headers that differ. */
function sentBy(gitHost: GitHostName, { url, secret }: StoredWebhook, own: Headers, payload?: object): Delivery {
  const { push, headers } = senders[gitHost];
  const body = bytes(payload ?? push);
  const { host, pathname, search } = new URL(url);
  const to = { host, path: `${pathname}${search}` };
  return deliveryOf(gitHost, { ...to, body, headers: { ...headers(body, secret), ...own } });
}

const gitlabEvents = [
  ...["push", "confidential_issues", "confidential_note", "deployment", "feature_flag", "issues", "job"],
  ...["merge_requests", "note", "pipeline", "releases", "resource_access_token", "tag_push", "wiki_page"],
];

const gitlabItem = ({ id, kind, sent, got }: Attempt) => ({
  ...{ id, trigger: `${kind}_hooks` },
  request_headers: { ...shownHeaders(sent.headers), "X-GITLAB-TOKEN": "[REDACTED]" },
  response_headers: got.status === 0 ? {} : shownHeaders({ date: new Date().toUTCString(), ...got.headers }),
  response_body: got.body,
  response_status: got.status === 0 ? "internal error" : `${got.status}`,
});

const gitlab: Family = {
  path: /^\/api\/v4\/projects\/([^/]+)\/hooks(\/.*)?$/,
  tokenOf: (headers) => text(headers["private-token"]) || undefined,
  update: "PUT",
  shown: ({ id, url, events, verifies, active, secret }) => ({
    ...{ id, url, push_events_branch_filter: "", enable_ssl_verification: verifies },
    ...Object.fromEntries(gitlabEvents.map((event) => [`${event}_events`, events.includes(event)])),
    alert_status: active ? "executable" : "disabled",
    token_present: secret !== "" && !secret.startsWith("whsec_"),
    signing_token_present: secret.startsWith("whsec_"),
  }),
  list: paged,
  fields: [
    ...([400, "url", "token", "signing_token", "enable_ssl_verification", "push_events_branch_filter"] as const),
    ...["branch_filter_strategy", "custom_webhook_template", "custom_headers"],
    ...gitlabEvents.map((event) => `${event}_events`),
  ],
  wanted(body) {
    need(/^https?:\/\//.test(text(body.url)), 422, "Invalid url given");
    const { token, signing_token: signing } = body;
    need(signing === undefined || /^whsec_[A-Za-z0-9+/]{43}=$/.test(text(signing)), 422, "signing_token");
    return {
      url: text(body.url),
      events: gitlabEvents.filter((event) => body[`${event}_events`] === true),
      verifies: body.enable_ssl_verification === true,
      ...((signing ?? token) !== undefined && { secret: text(signing ?? token) }),
    };
  },
  correct(webhook, wanted) {
    // A changed URL resets the token.
    Object.assign(webhook, wanted.url !== webhook.url && { secret: "" }, wanted);
  },
  async more(api, asked, webhook, [what, which, again]) {
    const { method } = asked;
    if (what === "test" && which === "push_events" && method === "POST") {
      const { got } = await api.send(webhook, "push");
      webhook.active = true;
      return got.status >= 200 && got.status < 300 ? problem(201, "201 Created") : problem(422, got.body || "failed");
    }
    const kept = api.attempts(webhook);
    if (what === "events" && which === undefined && method === "GET") {
      const fits = Number(asked.query.get("per_page") ?? 20) <= 20;
      if (!fits) return { status: 400, body: { error: "per_page does not have a valid value" } };
      return paged(asked, kept.map(gitlabItem));
    }
    const found = kept.find(({ id }) => `${id}` === which);
    if (what !== "events" || again !== "resend" || method !== "POST" || !found) return undefined;
    const { got } = await api.send(webhook, found.kind, found);
    return { status: 201, body: { response_status: got.status } };
  },
  // Each attempt has an event of its own, and the key of its delivery.
  delivery: (webhook, _, id) =>
    sentBy("gitlab-self-managed", webhook, { "x-gitlab-event-uuid": randomUUID(), "idempotency-key": id }),
};

/** Gitea, Forgejo, and Gogs, which has no tests. Their PATCH keeps the former secret, so pushgate makes another. */
const giteaLike = (name: "gitea" | "forgejo" | "gogs"): Family => ({
  path: new RegExp(`^/(?:${name}/)api/v1/repos/([^/]+/[^/]+)/hooks(/.*)?$`),
  tokenOf: ({ authorization }) => /^token (\S+)$/.exec(authorization ?? "")?.[1],
  shown: ({ id, url, contentType, events, active }) => ({
    ...{ id, type: name, branch_filter: "", config: { content_type: contentType, url }, events, active },
  }),
  list: (asked, all) => ({ status: 200, body: name === "gogs" ? all : pageOf(asked, all, "limit", 50).values }),
  fields: [422, "type", "config", "events", "active", "branch_filter", "authorization_header"],
  wanted(body) {
    const { url, content_type: type, secret } = objectOf(body.config);
    need(body.type === name, 422, `Invalid hook type: ${body.type}`);
    need(url !== undefined && ["json", "form"].includes(text(type)), 422, "Missing config option");
    return { ...common({ ...body, url }), contentType: text(type), secret: text(secret) };
  },
  more(api, { method }, webhook, [what]) {
    if (what === undefined && method === "DELETE") api.webhooks.splice(api.webhooks.indexOf(webhook), 1);
    else if (what === "tests" && method === "POST" && name !== "gogs") void api.send(webhook, "push");
    else return undefined;
    return { status: 204 };
  },
  delivery: (webhook, _, id) => sentBy(name, webhook, { "x-github-delivery": id }),
});

const bitbucket: Family = {
  path: /^\/2\.0\/repositories\/([^/]+\/[^/]+)\/hooks(\/.*)?$/,
  tokenOf: bearer,
  update: "PUT",
  idOf: ({ id }) => `{${id}}`,
  shown: ({ id, url, events, active, secret, verifies }) => ({
    ...{ uuid: `{${id}}`, url, active, events, secret_set: secret !== "", skip_cert_verification: !verifies },
  }),
  list(asked, all) {
    const { values, size, next } = pageOf(asked, all, "pagelen", 100);
    const link = `https://api.bitbucket.org${asked.path}?pagelen=${size}&page=${next}`;
    return { status: 200, body: { values, ...(next && { next: link }) } };
  },
  fields: [400, "description", "url", "active", "secret", "events", "skip_cert_verification"],
  wanted(body) {
    const { secret, skip_cert_verification: skips } = body;
    const wanted = { ...common(body), verifies: skips !== true };
    for (const event of wanted.events) need(/^repo:(push|fork)$/.test(event), 400, `${event} is no event`);
    return { ...wanted, ...(secret !== undefined && { secret: text(secret) }) };
  },
};

const dataCenter: Family = {
  path: /^\/rest\/api\/latest\/projects\/([^/]+\/repos\/[^/]+)\/webhooks(\/.*)?$/,
  tokenOf: bearer,
  update: "PUT",
  shown: ({ id, url, events, active, secret, verifies }) => ({
    ...{ id, events, url, active, sslVerificationRequired: verifies },
    configuration: { ...(secret !== "" && { secret }), createdBy: "bitbucket" },
  }),
  list({ query }, all) {
    const [limit, start] = [Number(query.get("limit") ?? 25), Number(query.get("start") ?? 0)];
    const isLastPage = all.length <= start + limit;
    const values = all.slice(start, start + limit);
    return { status: 200, body: { values, isLastPage, nextPageStart: isLastPage ? null : start + limit } };
  },
  fields: [400, "name", "url", "active", "events", "configuration", "sslVerificationRequired"],
  wanted: ({ configuration, sslVerificationRequired, ...body }) => ({
    ...{ ...common(body), verifies: sslVerificationRequired !== false, secret: text(objectOf(configuration).secret) },
  }),
};

const families = {
  github,
  gitlab,
  gitea: giteaLike("gitea"),
  forgejo: giteaLike("forgejo"),
  gogs: giteaLike("gogs"),
  bitbucket,
  "bitbucket-data-center": dataCenter,
};
export type FamilyName = keyof typeof families;
export const shownBy = (webhook: StoredWebhook): object => families[webhook.family].shown(webhook);

export class WebhookApi {
  readonly webhooks: StoredWebhook[] = [];
  readonly log: Attempt[] = [];
  /** Each request's method and path. */
  readonly requests: string[] = [];
  /** May manage webhooks; `reader` is valid and may not. */
  readonly token: string = "token-0123456789abcdefghij";
  readonly reader: string = "reader-0123456789abcdefghij";
  readonly repositories = new Set(["example/site", "example/repos/site"]);
  /** Requests that are left before the rate limit, and milliseconds until it ends; none where absent. */
  limit: { left: number; for: number } | undefined;
  /** Answers all requests in place of the API. */
  instead: Result | undefined;
  /** Deliveries that are under way. */
  readonly pending = new Set<Promise<unknown>>();
  /** What becomes of a delivery. */
  deliver: Deliver = async () => ({ status: 0, headers: {}, body: "" });
  private ids = 1000;

  /** Whether the path is one of these APIs'. */
  readonly isOwn = ({ url = "/" }: IncomingMessage): boolean =>
    Object.values(families).some(({ path }) => path.test(new URL(url, "https://localhost").pathname));

  add(family: FamilyName, repository: string, wanted: Omit<StoredWebhook, "id" | "family" | "repository">) {
    const made: StoredWebhook = { ...wanted, id: ++this.ids, family, repository };
    this.webhooks.push(made);
    return made;
  }

  /** The newest first. */
  attempts({ id }: StoredWebhook): Attempt[] {
    return this.log.filter(({ webhook }) => webhook === id).reverse();
  }

  /** Delivers to a webhook, and records it. `former`: the attempt that is repeated. */
  send(webhook: StoredWebhook, kind: string, former?: Attempt): Promise<Attempt> {
    const sending = this.attempt(webhook, kind, former);
    this.pending.add(sending);
    void sending.finally(() => this.pending.delete(sending));
    return sending;
  }

  /** As after a push: delivers to each webhook of the repository that is active. */
  async push(repository = "example/site"): Promise<Attempt[]> {
    const wants = this.webhooks.filter((one) => one.repository === repository && one.active);
    return Promise.all(wants.map((one) => this.send(one, "push")));
  }

  private async attempt(webhook: StoredWebhook, kind: string, former?: Attempt): Promise<Attempt> {
    const id = ++this.ids;
    const delivery = former?.delivery ?? randomUUID();
    const sent = (families[webhook.family] as Family).delivery!(webhook, kind, delivery);
    const about = { id, webhook: webhook.id, delivery, kind, redelivery: former !== undefined, at: Date.now(), sent };
    const attempt = { ...about, got: await this.deliver(sent) };
    this.log.push(attempt);
    return attempt;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, body, headers } = await this.result(request, await textOf(request)).catch((error: unknown) => {
      if (error instanceof StatusError) return problem(error.status, error.message);
      throw error;
    });
    response
      .writeHead(status, { "content-type": "application/json", ...headers })
      .end(typeof body === "string" ? body : JSON.stringify(body));
  }

  private async result({ method = "", url = "/", headers }: IncomingMessage, bytes: string): Promise<Result> {
    this.requests.push(`${method} ${url}`);
    if (this.instead !== undefined) return this.instead;
    const { pathname, searchParams: query } = new URL(url, "https://localhost");
    const found = (Object.entries(families) as [FamilyName, Family][]).find(([, { path }]) => path.test(pathname));
    need(found !== undefined, 404, "Not Found");
    const [name, family] = found;
    need(name !== "github" || !!headers["user-agent"], 403, "Request forbidden by administrative rules.");
    const token = family.tokenOf(headers);
    need(token !== this.reader, 403, "Resource not accessible by this token");
    need(token === this.token, 401, "Bad credentials");
    if (this.limit !== undefined && this.limit.left-- <= 0) return this.limited(this.limit.for);
    need(bytes === "" || headers["content-type"] === "application/json", 415, "not JSON");
    const [, ...captured] = family.path.exec(pathname)!;
    const parts = captured.map((part = "") => decodeURIComponent(part));
    need(this.repositories.has(parts[0]!), 404, "Not Found");
    const body = bytes === "" ? {} : (JSON.parse(bytes) as Body);
    return answerOf(this, name, { origin: `https://${headers.host}`, method, parts, path: pathname, query, body });
  }

  private limited(milliseconds: number): Result {
    const reset = Math.ceil((Date.now() + milliseconds) / 1000);
    this.limit = milliseconds < 5_000 ? undefined : this.limit;
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset };
    return { ...problem(403, "API rate limit exceeded"), headers };
  }
}

export type RunningWebhookApi = Awaited<ReturnType<typeof startWebhookApi>>;
export const startWebhookApi = (deliver: Deliver) => startServerOf(Object.assign(new WebhookApi(), { deliver }));
