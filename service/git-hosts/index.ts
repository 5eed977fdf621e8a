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
  readonly domains?: readonly string[]; // of its servers, where it is a public service
  /** Loopback port of its socket, its own from 9461 to 9469; absent where the git host publishes no source ranges. */
  readonly publishedPort?: number;
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

const likeGitlab = {
  ...gitlabSignature,
  mark: "x-gitlab-event",
  // Since GitLab 17.4. Retries and resends keep it; each has another X-Gitlab-Event-UUID.
  deliveryHeader: "idempotency-key",
  webhookPage: "Settings > Webhooks > Add new webhook",
  // GitLab itself has no ping: its test is a push.
  payload: { ...likeGithub.payload, header: "x-gitlab-event", push: ["Push Hook", "Tag Push Hook"], ping: "Ping" },
  keys: "some",
  secretField: (secret: string) => (isMeantAsKey(secret) ? "signing token" : "secret token"),
} as const;

// GitHub uses this header for SHA-1; Bitbucket's prefix says SHA-256.
const likeBitbucket = (push: string, levels: number, changes: Payload["changes"]) => ({
  ...hmacSignature("X-Hub-Signature", "sha256="),
  payload: { header: "x-event-key", push: [push], ping: "diagnostics:ping", levels, changes },
});

/** {push: {changes: [{new: {target: {hash}}}]}}; `new` is null for a deleted ref, `old` for a new one. */
const bitbucketChanges = ({ push }: Json): Change[] =>
  listOf(objectOf(push).changes).map(({ old, new: now }) => {
    const { type, name } = objectOf(now ?? old);
    const hash = (side: unknown): unknown => objectOf(objectOf(side).target).hash;
    return {
      ref: typeof name === "string" ? `refs/${type === "tag" ? "tags" : "heads"}/${name}` : undefined,
      ...{ before: hash(old), after: hash(now), deleted: now === null },
    };
  });

const dataCenterChanges = ({ changes }: Json): Change[] =>
  listOf(changes).map(({ refId: ref, fromHash: before, toHash: after, type }) => {
    return { ref, before, after, deleted: type === "DELETE" };
  });

/** Those that carry the marks of others come first: Forgejo's deliveries carry those of Gitea, Gogs and GitHub. */
const table = {
  forgejo: {
    ...likeGithub,
    mark: "x-forgejo-event",
    webhookPage: "Settings > Webhooks > Add webhook > Forgejo",
    domains: ["codeberg.org"],
  },
  gitea: { ...likeGithub, mark: "x-gitea-event", webhookPage: "Settings > Webhooks > Add webhook > Gitea" },
  gogs: {
    ...likeGithub,
    ...hmacSignature("X-Gogs-Signature", ""),
    mark: "x-gogs-event",
    webhookPage: "Settings > Webhooks > Add a new webhook > Gogs",
  },
  github: {
    ...likeGithub,
    mark: "x-github-delivery",
    webhookPage: "Settings > Webhooks > Add webhook",
    domains: ["github.com", "ssh.github.com"],
    publishedPort: 9461,
  },
  gitlab: { ...likeGitlab, domains: ["gitlab.com", "altssh.gitlab.com"], publishedPort: 9462 },
  "gitlab-self-managed": likeGitlab,
  bitbucket: {
    ...likeBitbucket("repo:push", 6, bitbucketChanges),
    mark: "x-hook-uuid",
    deliveryHeader: "x-request-uuid",
    webhookPage: "Repository settings > Webhooks > Add webhook",
    domains: ["bitbucket.org", "altssh.bitbucket.org"],
    publishedPort: 9463,
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
export type GitHost = Row & { readonly name: GitHostName };
export const gitHostNames = Object.keys(table) as GitHostName[];
const all = gitHostNames.map((name): GitHost => ({ name, ...table[name] }));
export const gitHosts = Object.fromEntries(all.map((one) => [one.name, one])) as Readonly<Record<GitHostName, GitHost>>;

/** The git host that a delivery says it comes from. A mark proves nothing: no signature covers a header. */
export const markedBy = (headers: IncomingHttpHeaders): GitHost | undefined =>
  all.find(({ mark }) => headers[mark] !== undefined);

/** Says where the headers are of another git host than the hook's, which would explain why they hold no signature. */
export function otherSender(headers: IncomingHttpHeaders, gitHost: GitHostName): string {
  const { mark, name } = markedBy(headers) ?? gitHosts[gitHost];
  const carries = mark in headers && headers[gitHosts[gitHost].mark] === undefined;
  return carries ? ` The headers are those of ${name}, and the hook's gitHost is ${gitHost}.` : "";
}
