/**
 * The APIs by which git hosts take the result of a build, one family for each form, and a receiver of `site.notify`. They
 * reject what the real ones reject: a wrong token, one without the permission, unknown commits, states and paths, texts
 * that are too long, a result without a URL where one is required, a wrong signature.
 */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gitHosts } from "../../service/git-hosts/index.ts";
import { type HttpsServer, startHttpsServer } from "./https-server.ts";

export type Family = "github" | "gitlab" | "gitea" | "bitbucket" | "bitbucket-data-center";

/** A result that was set. */
export type SetResult = {
  readonly family: Family;
  readonly repository: string;
  readonly commit: string;
  readonly state: string;
  readonly context: string;
  readonly description: string;
  readonly url: string | undefined;
};

export type Notification = Readonly<Record<"hook" | "site" | "state" | "commit" | "reason" | "time", string | null>> & {
  readonly id: string;
};

/** A test changes these while the API runs. */
export type Faults = {
  /** Answers all requests with this status. */
  status?: number;
  headers?: OutgoingHttpHeaders;
  text?: string;
  /** Takes requests and never answers. */
  hangs?: boolean;
  /** Sends a byte a time, without end. */
  trickles?: boolean;
};

type Body = Readonly<Record<string, unknown>>;
type Refusal = { readonly status: number; readonly body: unknown };
const refuse = (status: number, message: string): Refusal => ({ status, body: { message } });

type Form = {
  /** Repository and commit. */
  readonly path: RegExp;
  readonly tokenOf: (headers: IncomingHttpHeaders) => string | undefined;
  readonly states: readonly string[];
  readonly unknownCommit: number;
  readonly created: number;
  /** What is wrong with the body beside its state. */
  readonly fault: (body: Body) => Refusal | undefined;
  readonly read: (body: Body) => Pick<SetResult, "context" | "description" | "url">;
};

const length = (value: unknown): number => [...String(value ?? "")].length;
const bearer = ({ authorization }: IncomingHttpHeaders) => /^Bearer (\S+)$/.exec(authorization ?? "")?.[1];
const text = (value: unknown): string => String(value ?? "");
const optional = (value: unknown): string | undefined => (value === undefined ? undefined : String(value));

const bitbucketForm = (longestKey: number): Pick<Form, "tokenOf" | "states" | "read" | "fault"> => ({
  tokenOf: bearer,
  states: ["INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED"],
  read: ({ name, description, url }) => read(name, description, url),
  fault({ key, name, description, url }) {
    if (typeof key !== "string" || typeof url !== "string" || !/^https?:\/\//.test(url))
      return refuse(400, "key and url are required");
    if (key.length > longestKey)
      return refuse(400, `key: Ensure this value has at most ${longestKey} characters (it has ${key.length}).`);
    return length(name) > 255 || length(description) > 255 ? refuse(400, "at most 255 characters") : undefined;
  },
});

const read = (name: unknown, description: unknown, url: unknown) => ({
  ...{ context: text(name), description: text(description), url: optional(url) },
});
const githubRead: Form["read"] = ({ context, description, target_url }) => read(context, description, target_url);

const forms: Readonly<Record<Family, Form>> = {
  github: {
    path: /^\/repos\/([^/]+\/[^/]+)\/statuses\/([0-9a-f]+)$/,
    tokenOf: bearer,
    states: ["error", "failure", "pending", "success"],
    unknownCommit: 422,
    created: 201,
    fault: ({ description }) =>
      length(description) > 140 ? refuse(422, "description is too long (maximum is 140 characters)") : undefined,
    read: githubRead,
  },
  gitlab: {
    path: /^\/api\/v4\/projects\/([^/]+)\/statuses\/([0-9a-f]+)$/,
    tokenOf: (headers) => optional(headers["private-token"]),
    states: ["pending", "running", "success", "failed", "canceled", "skipped"],
    unknownCommit: 404,
    created: 201,
    fault: ({ description, target_url }) =>
      length(description) > 255 || length(target_url) > 255
        ? refuse(400, "is too long (maximum is 255 characters)")
        : undefined,
    read: ({ name, description, target_url }) => read(name, description, target_url),
  },
  gitea: {
    path: /^(?:\/git)?\/api\/v1\/repos\/([^/]+\/[^/]+)\/statuses\/([0-9a-f]+)$/,
    tokenOf: ({ authorization }) => /^token (\S+)$/.exec(authorization ?? "")?.[1],
    states: ["pending", "success", "error", "failure", "warning"],
    unknownCommit: 404,
    created: 201,
    fault: () => undefined,
    read: githubRead,
  },
  bitbucket: {
    ...bitbucketForm(40),
    path: /^\/2\.0\/repositories\/([^/]+\/[^/]+)\/commit\/([0-9a-f]+)\/statuses\/build$/,
    unknownCommit: 404,
    created: 201,
  },
  "bitbucket-data-center": {
    ...bitbucketForm(255),
    path: /^\/rest\/api\/latest\/projects\/([^/]+\/repos\/[^/]+)\/commits\/([0-9a-f]+)\/builds$/,
    unknownCommit: 404,
    created: 204,
  },
};

export class StatusApi {
  readonly results: SetResult[] = [];
  readonly notifications: Notification[] = [];
  readonly faults: Faults = {};
  /** Requests of any kind. */
  requests = 0;
  /** May set results; `reader` is valid and may not. */
  readonly token: string = "glpat-0123456789abcdefghij";
  readonly reader: string = "reader-0123456789abcdefghij";
  /** A key of Standard Webhooks. */
  readonly key: string = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  /** Commits that the repositories have; all of them where it is empty. */
  readonly commits = new Set<string>();

  /** Whether the path is one of these APIs'. */
  readonly isOwn = ({ url = "/" }: IncomingMessage): boolean =>
    url.startsWith("/hooks/") || Object.values(forms).some(({ path }) => path.test(url));

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    const bytes = await buffer(request);
    const { status, headers = {}, text = "", hangs, trickles } = this.faults;
    if (hangs) return;
    if (trickles) {
      const timer = setInterval(() => response.write("x"), 20);
      response.on("close", () => clearInterval(timer));
      return;
    }
    if (status !== undefined) return void response.writeHead(status, headers).end(text);
    const { status: code, body } = request.url?.startsWith("/hooks/")
      ? this.notified(request, bytes)
      : this.set(request, bytes);
    response.writeHead(code, { "content-type": "application/json" }).end(code === 204 ? "" : JSON.stringify(body));
  }

  private set({ method, url = "/", headers }: IncomingMessage, bytes: Buffer): Refusal {
    const [family, form] = (Object.entries(forms) as [Family, Form][]).find(([, { path }]) => path.test(url)) ?? [];
    if (family === undefined || form === undefined || method !== "POST") return refuse(404, "404 Not Found");
    const token = form.tokenOf(headers);
    if (token === this.reader) return refuse(403, "Resource not accessible by this token");
    if (token !== this.token) return refuse(401, "Bad credentials");
    if (family === "github" && !headers["user-agent"]) return refuse(403, "Request forbidden by administrative rules.");
    if (headers["content-type"] !== "application/json") return refuse(415, "not JSON");
    const [, repository = "", commit = ""] = form.path.exec(url) ?? [];
    const body = JSON.parse(bytes.toString()) as Body;
    const { state } = body;
    if (!form.states.includes(text(state))) return refuse(family === "gitlab" ? 400 : 422, `state ${state} is unknown`);
    if (this.commits.size > 0 && !this.commits.has(commit))
      return refuse(form.unknownCommit, `No commit found for SHA: ${commit}`);
    const fault = form.fault(body);
    if (fault) return fault;
    const repositoryName = decodeURIComponent(repository);
    this.results.push({ family, repository: repositoryName, commit, state: text(state), ...form.read(body) });
    return { status: form.created, body: {} };
  }

  private notified({ headers }: IncomingMessage, bytes: Buffer): Refusal {
    if (!gitHosts["standard-webhooks"].verify(this.key, bytes, headers)) return refuse(401, "not signed");
    this.notifications.push({ ...JSON.parse(bytes.toString()), id: headers["webhook-id"] });
    return { status: 204, body: {} };
  }
}

export type RunningApi = HttpsServer & { readonly api: StatusApi };

/** On a loopback port. */
export async function startStatusApi(): Promise<RunningApi> {
  const api = new StatusApi();
  return { api, ...(await startHttpsServer((request, response) => api.answer(request, response))) };
}
