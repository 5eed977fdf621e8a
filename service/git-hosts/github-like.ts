/** GitHub's headers and payload, which Gitea and Forgejo also send. The receiver reads four fields and merges none. */
import type { Decision, GitHost } from "./git-host.ts";
import { hmacSignature } from "./hmac-signature.ts";
import { decideChanges, notAnObject, otherEvent, parsePayload } from "./payload.ts";

export function decide(event: string | undefined, body: Buffer, branch: string): Decision {
  const payload = parsePayload(body);
  if (!payload) return notAnObject;
  if (event === "ping") return { ignored: "ping" };
  if (event !== "push") return otherEvent(event);
  const { ref, before, after, deleted } = payload;
  return decideChanges([{ ref, before, after, deleted: deleted === true }], branch);
}

const { shape, signed, ...signature } = hmacSignature("X-Hub-Signature-256", "sha256=");

/** The body of pushgate's own pings. */
export const pingBody = JSON.stringify({ zen: "a ping of pushgate" });
export const pingHeaders = (id: string) => ({ "x-github-event": "ping", "x-github-delivery": id });

/** Gitea and Forgejo repeat signature, event and delivery id in headers of their own; only GitHub's are read. */
export const githubLike = {
  signatures: [shape],
  deliveryHeader: "x-github-delivery",
  dialect: {
    ...signature,
    decide: (headers, body, branch) => decide(headers["x-github-event"] as string | undefined, body, branch),
  },
  ping: (secret, id) => ({ headers: { ...pingHeaders(id), ...signed(secret, pingBody) }, body: pingBody }),
} as const satisfies Omit<GitHost, "name" | "mark" | "webhookPage">;

/** A ping that also carries the mark of another git host. */
export const marked =
  (mark: string): NonNullable<GitHost["ping"]> =>
  (secret, id) => {
    const { headers, body } = githubLike.ping(secret, id);
    return { headers: { ...headers, [mark]: "ping" }, body };
  };
