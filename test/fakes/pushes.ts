/**
 * Deliveries of each git host that its users' receivers got wrong, and what each of them means for a hook of the branch
 * main: a branch and a tag of one name, deletions, null and missing fields, several changes in one push.
 */
import { type GitHostName, gitHosts } from "../../service/git-hosts/index.ts";
import type { Decision } from "../../service/git-hosts/payload.ts";
import { writtenKey } from "../../service/git-hosts/standard-signature.ts";
import {
  bitbucketPayload,
  bitbucketSide,
  bytes,
  dataCenterPayload,
  gitlabPayload,
  type Headers,
  senders,
} from "./senders.ts";

const [one, two, zeros] = ["1".repeat(40), "2".repeat(40), "0".repeat(40)] as const;
const changed = (ref: string, after: string = one, before: string = two) => ({ ref, before, after });
const refs = (before: unknown, after: unknown, deleted = false) => ({ before, after, deleted });

const lab = gitlabPayload;
const branch = bitbucketSide;
const cloud = (old: ReturnType<typeof branch>, next: ReturnType<typeof branch>) => bitbucketPayload({ old, new: next });
const server = (refId: string, fromHash: unknown, toHash: unknown, type: string) =>
  dataCenterPayload({ refId, fromHash, toHash, type } as never);
const toMain = (before: string | null, after: string | null): Decision => ({
  push: { ref: "refs/heads/main", before, after },
});
const noRef: Decision = { fault: "the push names no ref" };
const noChange: Decision = { ignored: "the push changes no ref" };
const deletion: Decision = { ignored: "deletion of main" };
const tag: Decision = { ignored: "tag main" };
const ofSystem = "event System Hook is not a push. Make it a webhook of the project, for push events.";
const labBefore = "95790bf891e76fee5e1747ab589903a6a1f80f22";
const several = [
  { old: null, new: branch("main", zeros, "tag") },
  { old: branch("next", one), new: null },
  { old: branch("main", two), new: branch("main", one) },
];
const others = [
  { old: null, new: branch("next", one) },
  { old: null, new: branch("main", one, "tag") },
];

type Push = readonly [GitHostName, payload: unknown, headers: Headers, Decision];
/** `headers`: in addition to those of the git host's push. */
export const pushes: readonly Push[] = [
  ["gitlab", lab(changed("refs/tags/main")), { "x-gitlab-event": "Tag Push Hook" }, tag],
  ["gitlab", lab({ ...changed("refs/heads/main", zeros), checkout_sha: null }), {}, deletion],
  ["gitlab", lab({ after: null }), {}, toMain(labBefore, null)],
  ["gitlab", lab({ ref: null }), {}, noRef],
  ["gitlab", lab(), { "x-gitlab-event": "Pipeline Hook" }, { ignored: "event Pipeline Hook is not a push" }],
  ["gitlab", lab(), { "x-gitlab-event": "System Hook" }, { ignored: ofSystem }],
  ["gogs", { ref: "refs/heads/main", ...refs(zeros, one) }, {}, toMain(zeros, one)],
  ["gogs", { ref: "refs/heads/main", ...refs(one, null, true) }, {}, deletion],
  ["bitbucket", cloud(null, branch("main", one)), {}, toMain(null, one)],
  ["bitbucket", cloud(branch("main", one), null), {}, deletion],
  ["bitbucket", cloud(null, branch("main", one, "tag")), {}, tag],
  ["bitbucket", bitbucketPayload(...several), {}, toMain(two, one)],
  ["bitbucket", bitbucketPayload(...others), {}, { ignored: "refs/heads/next and 1 more is not the branch main" }],
  ["bitbucket", bitbucketPayload(), {}, noChange],
  ["bitbucket", { push: { changes: {} } }, {}, noRef],
  ["bitbucket", { push: { changes: [null, 1, { new: null, old: null }, { new: { name: 1 } }] } }, {}, noRef],
  ["bitbucket", { push: null }, {}, noRef],
  ["bitbucket", bitbucketPayload(), { "x-event-key": "repo:fork" }, { ignored: "event repo:fork is not a push" }],
  ["bitbucket-data-center", { test: true }, { "x-event-key": "diagnostics:ping" }, { ignored: "ping" }],
  ["bitbucket-data-center", server("refs/heads/main", one, zeros, "DELETE"), {}, deletion],
  ["bitbucket-data-center", server("refs/heads/main", two, one, "DELETE"), {}, deletion],
  ["bitbucket-data-center", server("refs/tags/main", zeros, one, "ADD"), {}, tag],
  ["bitbucket-data-center", { changes: null }, {}, noRef],
  ["bitbucket-data-center", { changes: [] }, {}, noChange],
  ["bitbucket-data-center", {}, { "x-event-key": "pr:opened" }, { ignored: "event pr:opened is not a push" }],
];

/** A push of this git host under signatures that the receiver must reject, as [what signs it, headers, body]. */
export function badlySigned(gitHost: GitHostName): readonly (readonly [string, Headers, Buffer])[] {
  const { secret, push, headers } = senders[gitHost];
  const { keys, signatures } = gitHosts[gitHost];
  const body = bytes(push);
  const good = headers(body, secret);
  const names = signatures.map(({ header }) => header);
  const rest = Object.fromEntries(Object.entries(good).filter(([name]) => !names.includes(name)));
  const instead = (value: string): Headers => ({ ...rest, [names[0]!]: value });
  return [
    ["none", rest, body],
    ["an empty one", instead(""), body],
    ["the prefix alone", instead(signatures[0]!.prefix), body],
    ["another secret", headers(body, keys ? writtenKey(Buffer.alloc(32, 8)) : `${secret}x`), body],
    ["the empty secret", headers(body, ""), body],
    ["another body", good, bytes({ ...push, more: 1 })],
  ];
}
