/** What pushgate knows of a git host. Each git host is one module of this folder and one row of the table in index.ts. */
import type { IncomingHttpHeaders } from "node:http";
import type { StatusApi } from "./commit-status.ts";
import type { WebhookApi } from "./webhook-api.ts";

/** A header of a signed delivery. Cloudflare's rules, which cannot read a body, test its shape; the receiver verifies it. */
export type SignatureShape = {
  /** In lower case: Cloudflare's rules find a header by this spelling only. */
  readonly header: string;
  /** The first characters of the value; empty where each value can differ in all of them. */
  readonly prefix: string;
  /** Characters of the whole value; absent where the length varies. */
  readonly length?: number;
};

export type Push = {
  /** refs/heads/<branch> */
  readonly ref: string;
  /** Commit ids in hex, null where the payload holds none; `before` can be all zeros for a new branch. */
  readonly before: string | null;
  readonly after: string | null;
};

/** A push to build, or the reason why the receiver ignores the delivery (200) or rejects it (400). */
export type Decision = { readonly push: Push } | { readonly ignored: string } | { readonly fault: string };

/** How the receiver verifies a delivery and reads it. */
export type Dialect = {
  /** Why the headers hold no signature, found without hashing; undefined where they hold one. */
  readonly signatureFault: (headers: IncomingHttpHeaders) => string | undefined;
  /** Whether the headers sign exactly these bytes with this secret. It never throws. */
  readonly verify: (secret: string, body: Buffer, headers: IncomingHttpHeaders) => boolean;
  /** What a verified delivery means for a hook of this branch. It never throws. */
  readonly decide: (headers: IncomingHttpHeaders, body: Buffer, branch: string) => Decision;
};

export type GitHost = {
  /** As in `hooks[].gitHost` and in the table. */
  readonly name: string;
  /** In lower case: each delivery carries this header. Deliveries of some git hosts carry the marks of others, too. */
  readonly mark: string;
  /** A delivery carries at least one of these headers. */
  readonly signatures: readonly SignatureShape[];
  /** In lower case: the header with the id that the git host's page of deliveries shows. */
  readonly deliveryHeader: string;
  /** Names of its servers, where it is a public service. */
  readonly domains?: readonly string[];
  /** Set for a sender that holds no repositories: those of its hooks are at a git host. */
  readonly anyRepository?: true;
  /** Where a person adds a webhook, on the pages of the repository. */
  readonly webhookPage: string;
  /** What the form calls the field for this secret; "secret" where absent. */
  readonly secretField?: (secret: string) => string;
  /** Which secrets are keys of Standard Webhooks: `whsec_` and base64. None where absent. */
  readonly keys?: "all" | "some";
  /** Loopback port of its socket, its own from 9461 to 9469; absent where the git host publishes no source ranges. */
  readonly publishedPort?: number;
  readonly dialect: Dialect;
  /** How the result of a build is set on a commit; absent where it has no API for that. */
  readonly status?: StatusApi;
  /** How webhooks are set and what the git host recorded of its deliveries; absent where it has no API for that. */
  readonly webhooks?: WebhookApi;
  /** A signed delivery that builds nothing, as the operator's computer makes one; absent where each delivery is a push. */
  readonly ping?: (secret: string, id: string) => SignedPing;
};

type SignedPing = { readonly headers: Readonly<Record<string, string>>; readonly body: string };
