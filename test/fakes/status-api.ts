/**
 * The APIs by which GitHub Enterprise Server and Gitea take the result of a build, and a receiver of `site.notify`.
 * They reject what the real ones reject: a wrong token, unknown commits, states and paths, texts that are too long, a
 * wrong signature.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gitHosts } from "../../service/git-hosts/index.ts";
import { startServerOf } from "./https-server.ts";

type SetResult = Readonly<Record<"commit" | "state" | "context" | "description" | "url", unknown>>;

type Notification = Readonly<Record<"hook" | "site" | "state" | "commit" | "reason" | "time" | "id" | "path", string>>;

/** A test changes these while the API runs. */
export type Faults = {
  status?: number;
  headers?: OutgoingHttpHeaders;
  text?: string;
  hangs?: boolean;
};

type Body = Readonly<Record<string, unknown>>;
type Refusal = { readonly status: number; readonly body: unknown };
const refuse = (status: number, message: string): Refusal => ({ status, body: { message } });

type Form = {
  /** Commit. */
  readonly path: RegExp;
  readonly scheme: string;
  readonly unknownCommit: number;
  /** Characters of a description. */
  readonly longest: number;
};

const forms: Readonly<Record<"github" | "gitea", Form>> = {
  github: {
    path: /^\/api\/v3\/repos\/[^/]+\/[^/]+\/statuses\/([0-9a-f]+)$/,
    scheme: "Bearer",
    unknownCommit: 422,
    longest: 140,
  },
  gitea: {
    path: /^(?:\/git)?\/api\/v1\/repos\/[^/]+\/[^/]+\/statuses\/([0-9a-f]+)$/,
    scheme: "token",
    unknownCommit: 500,
    longest: Number.POSITIVE_INFINITY,
  },
};
const states: readonly unknown[] = ["error", "failure", "pending", "success"];

export class StatusApi {
  readonly results: SetResult[] = [];
  readonly notifications: Notification[] = [];
  readonly faults: Faults = {};
  requests = 0;
  readonly token: string = "glpat-0123456789abcdefghij";
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
    const { status, headers = {}, text = "", hangs } = this.faults;
    if (hangs) return;
    if (status !== undefined) return void response.writeHead(status, headers).end(text);
    const isHook = request.url?.startsWith("/hooks/");
    const { status: code, body } = isHook ? this.notified(request, bytes) : this.set(request, bytes);
    response.writeHead(code, { "content-type": "application/json" }).end(code === 204 ? "" : JSON.stringify(body));
  }

  private set({ method, url = "/", headers }: IncomingMessage, bytes: Buffer): Refusal {
    const [name, form] = Object.entries(forms).find(([, { path }]) => path.test(url)) ?? [];
    if (form === undefined || method !== "POST") return refuse(404, "404 Not Found");
    if (headers.authorization !== `${form.scheme} ${this.token}`) return refuse(401, "Bad credentials");
    if (name === "github" && !headers["user-agent"]) return refuse(403, "Request forbidden by administrative rules.");
    if (headers["content-type"] !== "application/json") return refuse(415, "not JSON");
    const commit = form.path.exec(url)![1]!;
    const { state, context, description, target_url } = JSON.parse(bytes.toString()) as Body;
    if (!states.includes(state)) return refuse(422, `state ${state} is unknown`);
    if (this.commits.size > 0 && !this.commits.has(commit))
      return refuse(form.unknownCommit, `No commit found for SHA: ${commit}`);
    if ([...String(description)].length > form.longest) return refuse(422, "description is too long");
    if (name === "github" && /[\u{10000}-\u{10ffff}]/u.test(`${description}`))
      return refuse(422, "description doesn't accept 4-byte Unicode");
    this.results.push({ commit, state, context, description, url: target_url });
    return { status: 201, body: {} };
  }

  private notified({ url: path = "/", headers }: IncomingMessage, bytes: Buffer): Refusal {
    if (!gitHosts["standard-webhooks"].verify(this.key, bytes, headers)) return refuse(401, "not signed");
    this.notifications.push({ ...JSON.parse(bytes.toString()), path, id: headers["webhook-id"] });
    return { status: 204, body: {} };
  }
}

export const startStatusApi = () => startServerOf(new StatusApi());
