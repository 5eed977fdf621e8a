/** A push as each git host sends it, with the headers and the payload that its documentation names. */
import { createHmac, randomUUID } from "node:crypto";
import type { GitHostName } from "../../service/git-hosts/index.ts";
import { writtenKey } from "../../service/git-hosts/standard-signature.ts";
import { type Delivery, delivery, pushPayload } from "./deliveries.ts";

type Payload = Readonly<Record<string, unknown>>;

const pushed = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
/** GitLab's push to a branch, with the fields that a receiver could read. */
export const gitlabPayload = (change: Payload = {}): Payload => ({
  object_kind: "push",
  before: "95790bf891e76fee5e1747ab589903a6a1f80f22",
  after: pushed,
  ref: "refs/heads/main",
  checkout_sha: pushed,
  project: { name: "site", git_http_url: "https://gitlab.example.net/example/site.git", default_branch: "main" },
  commits: [{ id: pushed, message: "layouts", added: ["a"], modified: [], removed: [] }],
  ...change,
});

type Side = { readonly type: string; readonly name: string; readonly target: { readonly hash: string } } | null;
export const bitbucketSide = (name: string, hash: string, type = "branch"): Side => ({ type, name, target: { hash } });

/** Bitbucket Cloud's push: one change for each ref. */
export const bitbucketPayload = (...changes: { readonly old: Side; readonly new: Side }[]): Payload => ({
  actor: { type: "user", display_name: "Ada", links: { html: { href: "https://bitbucket.org/ada/" } } },
  repository: { type: "repository", full_name: "example/site" },
  push: {
    changes: changes.map((change) => ({
      ...{ forced: false, created: change.old === null, closed: change.new === null, truncated: false, ...change },
      commits: [{ type: "commit", hash: change.new?.target.hash, author: { raw: "Ada <ada@example.org>" } }],
    })),
  },
});

type Ref = { readonly refId: string; readonly fromHash: string; readonly toHash: string; readonly type: string };
/** Bitbucket Data Center's push. */
export const dataCenterPayload = (...changes: readonly Ref[]): Payload => ({
  eventKey: "repo:refs_changed",
  actor: { name: "ada", id: 1, links: { self: [{ href: "https://bitbucket.example.net/users/ada" }] } },
  repository: { slug: "site", project: { key: "EX" } },
  changes: changes.map((one) => ({ ref: { id: one.refId, displayId: one.refId.split("/").at(-1) }, ...one })),
});

const now = () => Math.floor(Date.now() / 1000);
/** Headers of a delivery that Standard Webhooks signs; `key`: whsec_ and base64; `at`: seconds since 1970. */
export function standardHeaders(body: Buffer, key: string, at = now(), id = `msg_${randomUUID()}`) {
  const bytes = Buffer.from(key.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", bytes).update(`${id}.${at}.`).update(body).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": `v1,${signature}` };
}

export type Headers = Readonly<Record<string, string>>;
type Sender = {
  readonly secret: string;
  /** A push of the commit 111… after 222… to main. */
  readonly push: Payload;
  /** All headers of the git host's own, those of the signature included. `at` and `id`: those that it signs, if any. */
  readonly headers: (body: Buffer, secret: string, at?: number, id?: string) => Headers;
};

const secret = "a-secret-that-both-sides-know-0001";
const key = writtenKey(Buffer.alloc(32, 7));
const [one, two] = ["1".repeat(40), "2".repeat(40)] as const;
export const bytes = (payload: unknown): Buffer => Buffer.from(JSON.stringify(payload));
const hex = (body: Buffer, with_: string) => createHmac("sha256", with_).update(body).digest("hex");

const github = (body: Buffer, with_: string): Headers => ({
  "x-github-event": "push",
  "x-github-delivery": "f3a1",
  "x-hub-signature": `sha1=${"a".repeat(40)}`,
  "x-hub-signature-256": `sha256=${hex(body, with_)}`,
});
const gogs = (body: Buffer, with_: string): Headers => ({
  "x-github-event": "push",
  "x-github-delivery": "f3a1",
  "x-gogs-event": "push",
  "x-gogs-delivery": "f3a1",
  "x-gogs-signature": hex(body, with_),
});
/** Without a secret its signatures are empty. test/hosts/rebuild/gitea.test.ts has what a real one sends. */
const gitea = (body: Buffer, with_: string): Headers => {
  const signature = with_ && hex(body, with_);
  return {
    ...{ ...github(body, with_), ...gogs(body, with_), "x-gogs-signature": signature },
    ...{ "x-gitea-event": "push", "x-gitea-delivery": "f3a1", "x-gitea-signature": signature },
    ...{ "x-hub-signature": `sha1=${with_ && "a".repeat(40)}`, "x-hub-signature-256": `sha256=${signature}` },
  };
};
const gitlab: Sender["headers"] = (body, with_, at) => ({
  "x-gitlab-event": "Push Hook",
  "x-gitlab-event-uuid": randomUUID(),
  "idempotency-key": "f3a1",
  ...standardHeaders(body, with_, at, "f3a1"),
});
const push = { ...pushPayload(), before: two, after: one };
const labPush = gitlabPayload({ ref: "refs/heads/main", before: two, after: one });

export const senders: Record<GitHostName, Sender> = {
  github: { secret, push, headers: github },
  "github-enterprise": {
    ...{ secret, push },
    headers: (body, with_) => ({ ...github(body, with_), "x-github-enterprise-host": "github.example.net" }),
  },
  gitea: { secret, push, headers: gitea },
  forgejo: { secret, push, headers: (body, with_) => ({ ...gitea(body, with_), "x-forgejo-event": "push" }) },
  gogs: { secret, push, headers: gogs },
  gitlab: { secret: key, push: labPush, headers: gitlab },
  "gitlab-self-managed": { secret: key, push: labPush, headers: gitlab },
  bitbucket: {
    secret,
    push: bitbucketPayload({ old: bitbucketSide("main", two), new: bitbucketSide("main", one) }),
    headers: (body, with_) => ({
      ...{ "x-event-key": "repo:push", "x-hook-uuid": "h", "x-request-uuid": "f3a1" },
      "x-hub-signature": `sha256=${hex(body, with_)}`,
    }),
  },
  "bitbucket-data-center": {
    secret,
    push: dataCenterPayload({ refId: "refs/heads/main", fromHash: two, toHash: one, type: "UPDATE" }),
    headers: (body, with_) => ({
      ...{ "x-event-key": "repo:refs_changed", "x-request-id": "f3a1" },
      "x-hub-signature": `sha256=${hex(body, with_)}`,
    }),
  },
  "standard-webhooks": {
    secret: key,
    push: { type: "page.published", data: {} },
    headers: (...signed) => standardHeaders(...signed),
  },
};

type Sent = Partial<Pick<Delivery, "host" | "path" | "source" | "body" | "headers">> & { readonly secret?: string };

/** The sender's push, signed with its secret. `headers`: in place of all headers of the git host's own. */
export function deliveryOf(gitHost: GitHostName, { headers, secret, ...change }: Sent = {}): Delivery {
  const sender = senders[gitHost];
  const body = change.body ?? bytes(sender.push);
  const plain = delivery({ ...change, body, signature: null });
  const kept = Object.entries(plain.headers).filter(([name]) => !name.startsWith("x-"));
  const own = headers ?? sender.headers(body, secret ?? sender.secret);
  return { ...plain, headers: { ...Object.fromEntries(kept), ...own } };
}
