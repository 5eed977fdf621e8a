/**
 * GitHub's dialect, which Gitea and Forgejo send as well: from event and payload to a decision. Reads three fields and
 * merges nothing, so that no name in a payload can reach a prototype. What is read is a hint: the builder fetches the
 * branch's head itself.
 */
import { randomUUID } from "node:crypto";

export type Payload = Readonly<Record<string, unknown>>;

export type Push = {
  /** refs/heads/<branch> */
  readonly ref: string;
  /** Commit ids in hex, null where the payload holds none; `before` is all zeros for a new branch. */
  readonly before: string | null;
  readonly after: string | null;
};

export type Decision = { readonly push: Push } | { readonly ignored: string };

/** The delivery's id where it can be a file's name, else one of our own. The header is not signed: it proves nothing. */
export const deliveryId = (header: string | undefined): string =>
  header !== undefined && /^[A-Za-z0-9-]{1,64}$/.test(header) ? header : randomUUID();

/** The payload, or undefined where the body is no JSON object. */
export function parsePayload(body: Buffer): Payload | undefined {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Payload) : undefined;
  } catch {
    return undefined;
  }
}

/** SHA-1 or SHA-256. Anything else is left out, so that no text of a payload becomes anybody's argument. */
function commit(value: unknown): string | null {
  return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;
}

/** Undefined where a push names no ref: signed, but not a push. */
export function decide(event: string | undefined, payload: Payload, branch: string): Decision | undefined {
  if (event === "ping") return { ignored: "ping" };
  if (event !== "push") return { ignored: `event ${event ?? "missing"} is not a push` };
  const ref = payload.ref;
  if (typeof ref !== "string") return undefined;
  // A tag may be called as the branch is: only the whole ref tells them apart.
  if (ref.startsWith("refs/tags/")) return { ignored: `tag ${ref.slice("refs/tags/".length)}` };
  if (ref !== `refs/heads/${branch}`) return { ignored: `${ref} is not the branch ${branch}` };
  const after = commit(payload.after);
  if (payload.deleted === true || (after !== null && /^0+$/.test(after))) return { ignored: `deletion of ${branch}` };
  return { push: { ref, before: commit(payload.before), after } };
}
