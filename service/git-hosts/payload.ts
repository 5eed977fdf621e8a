/** What a verified delivery means for a hook: its event, the refs that a push changes, and their commits. */
import type { IncomingHttpHeaders as Headers } from "node:http";
import { isAmong } from "../branches.ts";
import { tried } from "../tried.ts";
import { parseShallow } from "./shallow-json.ts";

export type Json = Readonly<Record<string, unknown>>;

export type Push = {
  readonly ref: string; // refs/heads/<branch>
  /** Commit ids in hex, null where the payload holds none; `before` can be all zeros for a new branch. */
  readonly before: string | null;
  readonly after: string | null;
};

/**
 * A push to build, one of a branch that has a preview, or both; or the reason why the receiver ignores the delivery (200)
 * or rejects it (400).
 */
export type Decision = Pushes | { readonly ignored: string } | { readonly fault: string };
export type Pushes = { readonly push?: Push; readonly preview?: Push };

export type Change = Readonly<Partial<Record<"ref" | "before" | "after" | "deleted", unknown>>>;

export type Payload = {
  readonly header: string; // with the event, in lower case
  readonly push: readonly string[]; // the events that are a push, and the one that is a ping
  readonly ping: string;
  readonly fixes?: ReadonlyMap<string, string>; // of events that a webhook of the wrong kind sends
  readonly levels: number; // nested values below hold nothing
  readonly changes: (payload: Json) => readonly Change[];
};

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const objectOf = (value: unknown): Json => (isObject(value) ? value : {});
export const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.map(objectOf) : []);

const quoted = (text: string): string => text.slice(0, 255);

/** Without a form, each delivery is a push to the hook's branch. `previews`: patterns of other branches. It never throws. */
export function decide(
  form: Payload | undefined,
  headers: Headers,
  body: Buffer,
  branch: string,
  previews: readonly string[] = [],
): Decision {
  const payload = tried(() => parseShallow(body, form?.levels));
  if (!isObject(payload)) return { fault: "the body is not a JSON object" };
  const ref = `refs/heads/${branch}`;
  if (!form) return { push: { ref, before: null, after: null } };
  const event = String(headers[form.header] ?? "missing");
  if (event === form.ping) return { ignored: "ping" };
  const fix = form.fixes?.get(event) ?? "";
  if (!form.push.includes(event)) return { ignored: `event ${quoted(event)} is not a push${fix && `. ${fix}`}` };
  const changes = form.changes(payload);
  // A tag can have the branch's name: only the whole ref distinguishes them. One push has each ref once.
  const own = changes.find((change) => change.ref === ref);
  // Also of a deletion: its preview is removed.
  const other = changes.find((change) => change !== own && isPreview(change, previews));
  const isDeleted = own?.deleted === true || /^0+$/.test(String(commit(own?.after)));
  if (!other && !own) return ignoredRefs(changes, branch);
  if (!other && isDeleted) return { ignored: `deletion of ${branch}` };
  return { ...(own && !isDeleted && { push: pushOf(own) }), ...(other && { preview: pushOf(other) }) };
}

function isPreview({ ref }: Change, previews: readonly string[]): boolean {
  const [, branch] = /^refs\/heads\/(.+)$/.exec(String(ref)) ?? [];
  return branch !== undefined && isAmong(branch, previews);
}

const pushOf = ({ ref, before, after }: Change): Push => ({
  ...{ ref: String(ref), before: commit(before), after: commit(after) },
});

/** A SHA-1 or SHA-256 commit id, else null, so that no other text of a payload becomes an argument of git. */
function commit(value: unknown): string | null {
  return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;
}

function ignoredRefs(changes: readonly Change[], branch: string): Decision {
  if (changes.length === 0) return { ignored: "the push changes no ref" };
  const named = changes.map(({ ref }) => ref).find((ref) => typeof ref === "string");
  if (named === undefined) return { fault: "the push names no ref" };
  const more = changes.length > 1 ? ` and ${changes.length - 1} more` : "";
  if (named.startsWith("refs/tags/")) return { ignored: `tag ${quoted(named.slice("refs/tags/".length))}${more}` };
  return { ignored: `${quoted(named)}${more} is not the branch ${branch}` };
}
