/** What pushgate knows of a git host. Each git host is one module of this folder and one row of the table in index.ts. */
import type { IncomingHttpHeaders } from "node:http";

/** A header of a signed delivery. Cloudflare's rules, which cannot read a body, test its shape; the receiver verifies it. */
export type SignatureShape = {
  /** In lower case: Cloudflare's rules find a header by this spelling only. */
  readonly header: string;
  /** The first characters of the value; empty where the value is the secret itself. */
  readonly prefix: string;
  /** Characters of the whole value; absent where the length varies. */
  readonly length?: number;
};

/** `sha256=` and 64 hexadecimal digits. */
export const hmacShape = (header: string): SignatureShape => ({ header, prefix: "sha256=", length: 7 + 64 });

export type Push = {
  /** refs/heads/<branch> */
  readonly ref: string;
  /** Commit ids in hex, null where the payload holds none; `before` is all zeros for a new branch. */
  readonly before: string | null;
  readonly after: string | null;
};

/** A push to build, or the reason why the receiver ignores the delivery (200) or rejects it (400). */
export type Decision = { readonly push: Push } | { readonly ignored: string } | { readonly fault: string };

/** How the receiver verifies a delivery and reads it. */
export type Dialect = {
  /** Why the headers hold no signature, found without hashing; undefined where they hold one. */
  readonly signatureFault: (headers: IncomingHttpHeaders) => string | undefined;
  /** Whether the headers sign exactly these bytes with one of the secrets. It never throws. */
  readonly verify: (secrets: readonly string[], body: Buffer, headers: IncomingHttpHeaders) => boolean;
  /** What a verified delivery means for a hook of this branch. It never throws. */
  readonly decide: (headers: IncomingHttpHeaders, body: Buffer, branch: string) => Decision;
};

export type GitHost = {
  /** As in `hooks[].gitHost` and in the table. */
  readonly name: string;
  /** A delivery carries at least one of these headers. */
  readonly signatures: readonly SignatureShape[];
  /** In lower case: the header with the id that the git host's page of deliveries shows. */
  readonly deliveryHeader: string;
  /** Loopback port of its socket, from 9461 to 9469; absent where the git host publishes no source ranges. */
  readonly publishedPort?: number;
  /** Absent where the receiver does not verify this git host's deliveries yet. */
  readonly dialect?: Dialect;
};
