/** What the payloads of git hosts have in common: JSON, commits, and refs that a push changes. */
import type { Decision } from "./git-host.ts";
import { parseShallow } from "./shallow-json.ts";

export type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The value where it is an object, else an object without keys. */
export const objectOf = (value: unknown): Json => (isObject(value) ? value : {});
/** The values of a list as objects; none where it is no list. */
export const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.map(objectOf) : []);

/** The payload, or undefined where the body is not a JSON object. `levels`: nested values below hold nothing. */
export function parsePayload(body: Buffer, levels = 1): Json | undefined {
  try {
    const value: unknown = parseShallow(body, levels);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export const notAnObject: Decision = { fault: "the body is not a JSON object" };

/** A text of the payload that the answer and the journal quote: it can be as long as the body. */
const quoted = (text: string): string => text.slice(0, 255);

export const otherEvent = (event: string | undefined): Decision => ({
  ignored: `event ${quoted(event ?? "missing")} is not a push`,
});

/** A SHA-1 or SHA-256 commit id, else null, so that no other text of a payload becomes an argument of git. */
function commit(value: unknown): string | null {
  return typeof value === "string" && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;
}

/** One ref that a push changed, as the payload has it: any value of JSON. */
export type Change = {
  readonly ref: unknown;
  readonly before: unknown;
  readonly after: unknown;
  readonly deleted: boolean;
};

/** What these changes mean for a branch. A git host that sends several in one push sends each ref once. */
export function decideChanges(changes: readonly Change[], branch: string): Decision {
  // A tag can have the branch's name: only the whole ref distinguishes them.
  const own = changes.find(({ ref }) => ref === `refs/heads/${branch}`);
  if (!own)
    return ignoredRefs(
      changes.map(({ ref }) => ref),
      branch,
    );
  const after = commit(own.after);
  if (own.deleted || /^0+$/.test(String(after))) return { ignored: `deletion of ${branch}` };
  return { push: { ref: `refs/heads/${branch}`, before: commit(own.before), after } };
}

function ignoredRefs(refs: readonly unknown[], branch: string): Decision {
  const named = refs.find((ref) => typeof ref === "string");
  if (named === undefined) return { fault: "the push names no ref" };
  const more = refs.length > 1 ? ` and ${refs.length - 1} more` : "";
  if (named.startsWith("refs/tags/")) return { ignored: `tag ${quoted(named.slice("refs/tags/".length))}${more}` };
  return { ignored: `${quoted(named)}${more} is not the branch ${branch}` };
}
