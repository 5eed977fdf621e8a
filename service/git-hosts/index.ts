/** Every git host that pushgate knows: a new one is a row of this table, and of those of `api/` where it has an API. */
import type { IncomingHttpHeaders } from "node:http";
import { gitlabSignature } from "./gitlab-signature.ts";
import { hmacSignature, type Signature } from "./hmac-signature.ts";
import { type Change, type Json, listOf, objectOf, type Payload } from "./payload.ts";
import { isMeantAsKey, standardSignature } from "./standard-signature.ts";

/** Headers are in lower case. */
type Row = Signature & {
  /** Each delivery carries this header. Deliveries of some git hosts carry the marks of others, too. */
  readonly mark: string;
  readonly deliveryHeader: string; // with the id that the git host's page of deliveries shows
  readonly webhookPage: string; // where a person adds a webhook
  readonly payload?: Payload; // absent for a sender whose deliveries are all pushes
  /**
   * Loopback port of its socket, its own from 9461 to 9469; absent where the git host publishes no source ranges. With
   * another port the source set needs another name (decision 017).
   */
  readonly publishedPort?: number;
  /** The name of its row for servers elsewhere, which the published ranges would block; set where those ranges are. */
  readonly elsewhere?: string;
  readonly anyRepository?: true; // set for a sender that holds no repositories: those of its hooks are at a git host
  /** Which secrets are keys of Standard Webhooks: `whsec_` and base64. None where absent. */
  readonly keys?: "all" | "some";
  /** What the form calls the field for this secret; "secret" where absent. */
  readonly secretField?: (secret: string) => string;
};

/** Gitea and Forgejo repeat signature, event and delivery id in headers of their own; only GitHub's are read. */
const likeGithub = {
  ...hmacSignature("X-Hub-Signature-256", "sha256="),
  deliveryHeader: "x-github-delivery",
  payload: { header: "x-github-event", push: ["push"], ping: "ping", levels: 1, changes: (push: Json) => [push] },
};

const ofGithub = {
  ...likeGithub,
  mark: "x-github-delivery",
  webhookPage: "Settings > Webhooks > Add webhook",
};

const gitlabEvents = {
  header: "x-gitlab-event",
  push: ["Push Hook", "Tag Push Hook"],
  ping: "Ping", // GitLab itself has none: its test is a push
  // An administrator's, with the pushes of all projects under this one event.
  fixes: new Map([["System Hook", "Make it a webhook of the project, for push events."]]),
};

const likeGitlab = {
  ...gitlabSignature,
  mark: "x-gitlab-event",
  // Since GitLab 17.4. Retries and resends keep it; each has another X-Gitlab-Event-UUID.
  deliveryHeader: "idempotency-key",
  webhookPage: "Settings > Webhooks > Add new webhook",
  payload: { ...likeGithub.payload, ...gitlabEvents },
  keys: "some",
  secretField: (secret: string) => (isMeantAsKey(secret) ? "signing token" : "secret token"),
} as const;

// GitHub uses this header for SHA-1; Bitbucket's prefix says SHA-256.
const likeBitbucket = (push: string, levels: number, changes: Payload["changes"]) => ({
  ...hmacSignature("X-Hub-Signature", "sha256="),
  payload: { header: "x-event-key", push: [push], ping: "diagnostics:ping", levels, changes },
});

/** Without a list one change without a ref, which is rejected; an empty list is none. */
const changesIn = (list: unknown): Json[] => (Array.isArray(list) ? listOf(list) : [{}]);

/** {push: {changes: [{new: {target: {hash}}}]}}; `new` is null for a deleted ref, `old` for a new one. */
const bitbucketChanges = ({ push }: Json): Change[] =>
  changesIn(objectOf(push).changes).map(({ old, new: now }) => {
    const { type, name } = objectOf(now ?? old);
    const hash = (side: unknown): unknown => objectOf(objectOf(side).target).hash;
    return {
      ref: typeof name === "string" ? `refs/${type === "tag" ? "tags" : "heads"}/${name}` : undefined,
      ...{ before: hash(old), after: hash(now), deleted: now === null },
    };
  });

const dataCenterChanges = ({ changes }: Json): Change[] =>
  changesIn(changes).map(({ refId: ref, fromHash: before, toHash: after, type }) => {
    return { ref, before, after, deleted: type === "DELETE" };
  });

/** Those that carry the marks of others come first: Forgejo's deliveries carry those of Gitea, Gogs and GitHub. */
const table = {
  forgejo: {
    ...likeGithub,
    mark: "x-forgejo-event",
    webhookPage: "Settings > Webhooks > Add webhook > Forgejo",
  },
  gitea: { ...likeGithub, mark: "x-gitea-event", webhookPage: "Settings > Webhooks > Add webhook > Gitea" },
  gogs: {
    ...likeGithub,
    ...hmacSignature("X-Gogs-Signature", ""),
    mark: "x-gogs-event",
    webhookPage: "Settings > Webhooks > Add a new webhook > Gogs",
  },
  github: { ...ofGithub, publishedPort: 9461, elsewhere: "github-enterprise" },
  // Enterprise Server, and GHE.com, which publishes ranges for each region.
  "github-enterprise": ofGithub,
  gitlab: { ...likeGitlab, publishedPort: 9462, elsewhere: "gitlab-self-managed" },
  "gitlab-self-managed": likeGitlab,
  bitbucket: {
    ...likeBitbucket("repo:push", 6, bitbucketChanges),
    mark: "x-hook-uuid",
    deliveryHeader: "x-request-uuid",
    webhookPage: "Repository settings > Webhooks > Add webhook",
    publishedPort: 9463,
    elsewhere: "bitbucket-data-center",
  },
  "bitbucket-data-center": {
    ...likeBitbucket("repo:refs_changed", 3, dataCenterChanges),
    mark: "x-event-key",
    deliveryHeader: "x-request-id",
    webhookPage: "Repository settings > Webhooks > Create webhook",
  },
  // Any sender of Standard Webhooks that is no git host, such as a content management system.
  "standard-webhooks": {
    ...standardSignature,
    mark: "webhook-id",
    deliveryHeader: "webhook-id",
    webhookPage: "the sender's page of webhooks",
    anyRepository: true,
    keys: "all",
    secretField: () => "signing secret",
  },
} as const satisfies Record<string, Row>;

export type GitHostName = keyof typeof table;
export type GitHost = Row & { readonly name: GitHostName; readonly elsewhere?: GitHostName };
export const gitHostNames = Object.keys(table) as GitHostName[];
const all = gitHostNames.map((name): GitHost => ({ name, ...table[name] }));
export const gitHosts = Object.fromEntries(all.map((one) => [one.name, one])) as Readonly<Record<GitHostName, GitHost>>;

export const isWithin = (name: string, domain: string): boolean => name === domain || name.endsWith(`.${domain}`);

/** The git host that a delivery says it comes from. A mark proves nothing: no signature covers a header. */
export const markedBy = (headers: IncomingHttpHeaders): GitHost | undefined =>
  all.find(({ mark }) => headers[mark] !== undefined);

/** Says where the headers are of another git host than the hook's, which explains why they hold no signature of its kind. */
export function otherSender(headers: IncomingHttpHeaders, gitHost: GitHostName): string | undefined {
  const { mark, signatures } = gitHosts[gitHost];
  const sender = markedBy(headers);
  if (!sender || mark in headers || sender.signatures[0]!.header === signatures[0]!.header) return undefined;
  return `the headers are those of ${sender.name}, and the hook's gitHost is ${gitHost}. Correct hooks[].gitHost, or the URL at the git host.`;
}
