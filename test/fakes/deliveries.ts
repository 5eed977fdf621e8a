/** Deliveries as a git host sends them: GitHub's own payloads and headers, signed over the bytes that are sent. */
import { createHmac, randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { secrets } from "../fixtures.ts";

type Payload = Record<string, unknown> & { ref?: string };

// The package's types describe an ES module, its file is CommonJS.
const examples: { name: string; examples: Payload[] }[] = createRequire(import.meta.url)("@octokit/webhooks-examples");
const payloads = (event: string): Payload[] => examples.find(({ name }) => name === event)?.examples ?? [];

export type Delivery = {
  readonly method: string;
  readonly host: string;
  /** As in the request line, with the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly source: string;
};

/** One address of each kind that deliveries and attacks come from. */
export const from = {
  github: "192.30.252.7",
  stranger: "203.0.113.99",
} as const;

export const sign = (body: Buffer | string, secret: string): string =>
  `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

/** GitHub's own example of a push to a branch, on the branch that is published. */
export function pushPayload(branch = "main"): Payload {
  const sample = payloads("push").find(({ ref }) => ref?.startsWith("refs/heads/"));
  return { ...sample, ref: `refs/heads/${branch}` };
}

export const pingPayload = (): Payload => payloads("ping")[0] ?? {};

export type Change = {
  readonly event?: string;
  readonly hook?: string;
  readonly payload?: unknown;
  readonly body?: Buffer;
  readonly secret?: string;
  readonly signature?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
} & Partial<Pick<Delivery, "method" | "host" | "path" | "source">>;

/** A good push from GitHub to the hook "site". `change` replaces parts of it. */
export function delivery(change: Change = {}): Delivery {
  const { method = "POST", host = "hooks.example.org", hook = "site", path = `/webhook/${hook}` } = change;
  const { payload = pushPayload(), body = Buffer.from(JSON.stringify(payload)), source = from.github } = change;
  const { secret = secrets.site.current, signature = sign(body, secret), event = "push" } = change;
  return {
    ...{ method, host, path, source, body },
    headers: {
      "user-agent": "GitHub-Hookshot/044aadd",
      accept: "*/*",
      "content-type": "application/json",
      "content-length": String(body.length),
      "x-github-delivery": randomUUID(),
      "x-github-event": event,
      "x-github-hook-id": "292430182",
      ...(signature !== null && { "x-hub-signature-256": signature }),
      ...change.headers,
    },
  };
}
