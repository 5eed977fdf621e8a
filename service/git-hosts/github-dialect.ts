/** GitHub's headers and payload, which Gitea and Forgejo also send. The receiver reads four fields and merges none. */
import type { IncomingHttpHeaders } from "node:http";
import { type Decision, type GitHost, hmacShape } from "./git-host.ts";
import { isWellFormed, verify } from "./hmac-signature.ts";

const signatureOf = (headers: IncomingHttpHeaders) => headers["x-hub-signature-256"] as string | undefined;
const eventOf = (headers: IncomingHttpHeaders) => headers["x-github-event"] as string | undefined;

type Payload = Readonly<Record<string, unknown>>;

/** The payload, or undefined where the body is not a JSON object. */
function parsePayload(body: Buffer): Payload | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Payload) : undefined;
  } catch {
    return undefined;
  }
}

/** A SHA-1 or SHA-256 commit id, else null, so that no other text of a payload becomes an argument of git. */
function commit(value: unknown): string | null {
  return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;
}

export function decide(event: string | undefined, body: Buffer, branch: string): Decision {
  const payload = parsePayload(body);
  if (!payload) return { fault: "the body is not a JSON object" };
  if (event === "ping") return { ignored: "ping" };
  if (event !== "push") return { ignored: `event ${event ?? "missing"} is not a push` };
  const ref = payload.ref;
  if (typeof ref !== "string") return { fault: "the push names no ref" };
  // A tag can have the branch's name: only the whole ref distinguishes them.
  if (ref.startsWith("refs/tags/")) return { ignored: `tag ${ref.slice("refs/tags/".length)}` };
  if (ref !== `refs/heads/${branch}`) return { ignored: `${ref} is not the branch ${branch}` };
  const after = commit(payload.after);
  if (payload.deleted === true || (after !== null && /^0+$/.test(after))) return { ignored: `deletion of ${branch}` };
  return { push: { ref, before: commit(payload.before), after } };
}

/** Gitea and Forgejo repeat signature, event and delivery id in headers of their own; only GitHub's are read. */
export const githubDialect = {
  signatures: [hmacShape("x-hub-signature-256")],
  deliveryHeader: "x-github-delivery",
  dialect: {
    signatureFault: (headers) => {
      const header = signatureOf(headers);
      if (isWellFormed(header)) return undefined;
      if (header === undefined) return "X-Hub-Signature-256 is missing. Set the hook's secret at the git host.";
      return "X-Hub-Signature-256 is not one sha256= and 64 hex digits";
    },
    verify: (secrets, body, headers) => verify(secrets, body, signatureOf(headers)),
    decide: (headers, body, branch) => decide(eventOf(headers), body, branch),
  },
} as const satisfies Omit<GitHost, "name">;
