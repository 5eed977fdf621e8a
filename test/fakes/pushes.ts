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

/** `headers`: in addition to those of the git host's push. */
export const pushes: readonly (readonly [GitHostName, payload: unknown, headers: Headers, Decision])[] = [
  ["gitlab", gitlabPayload(changed("refs/tags/main")), { "x-gitlab-event": "Tag Push Hook" }, { ignored: "tag main" }],
  ["gitlab", gitlabPayload(changed("refs/heads/next")), {}, { ignored: "refs/heads/next is not the branch main" }],
  [
    "gitlab",
    gitlabPayload({ ...changed("refs/heads/main", zeros), checkout_sha: null }),
    {},
    { ignored: "deletion of main" },
  ],
  [
    "gitlab",
    gitlabPayload({ after: null }),
    {},
    { push: { ref: "refs/heads/main", before: "95790bf891e76fee5e1747ab589903a6a1f80f22", after: null } },
  ],
  ["gitlab", gitlabPayload({ ref: null }), {}, { fault: "the push names no ref" }],
  ["gitlab", gitlabPayload(), { "x-gitlab-event": "Pipeline Hook" }, { ignored: "event Pipeline Hook is not a push" }],
  [
    "gogs",
    { ref: "refs/heads/main", ...refs(zeros, one) },
    {},
    { push: { ref: "refs/heads/main", before: zeros, after: one } },
  ],
  ["gogs", { ref: "refs/heads/main", ...refs(one, null, true) }, {}, { ignored: "deletion of main" }],
  [
    "bitbucket",
    bitbucketPayload({ old: null, new: bitbucketSide("main", one) }),
    {},
    { push: { ref: "refs/heads/main", before: null, after: one } },
  ],
  ["bitbucket", bitbucketPayload({ old: bitbucketSide("main", one), new: null }), {}, { ignored: "deletion of main" }],
  ["bitbucket", bitbucketPayload({ old: null, new: bitbucketSide("main", one, "tag") }), {}, { ignored: "tag main" }],
  [
    "bitbucket",
    bitbucketPayload({ old: null, new: bitbucketSide("main", "--upload-pack=x") }),
    {},
    { push: { ref: "refs/heads/main", before: null, after: null } },
  ],
  [
    "bitbucket",
    bitbucketPayload(
      { old: null, new: bitbucketSide("main", zeros, "tag") },
      { old: bitbucketSide("next", one), new: null },
      { old: bitbucketSide("main", two), new: bitbucketSide("main", one) },
    ),
    {},
    { push: { ref: "refs/heads/main", before: two, after: one } },
  ],
  [
    "bitbucket",
    bitbucketPayload(
      { old: null, new: bitbucketSide("next", one) },
      { old: null, new: bitbucketSide("main", one, "tag") },
    ),
    {},
    { ignored: "refs/heads/next and 1 more is not the branch main" },
  ],
  ["bitbucket", bitbucketPayload(), {}, { fault: "the push names no ref" }],
  [
    "bitbucket",
    { push: { changes: [null, 1, { new: null, old: null }, { new: { name: 1 } }] } },
    {},
    { fault: "the push names no ref" },
  ],
  ["bitbucket", { push: null }, {}, { fault: "the push names no ref" }],
  ["bitbucket", bitbucketPayload(), { "x-event-key": "repo:fork" }, { ignored: "event repo:fork is not a push" }],
  ["bitbucket-data-center", { test: true }, { "x-event-key": "diagnostics:ping" }, { ignored: "ping" }],
  [
    "bitbucket-data-center",
    dataCenterPayload({ refId: "refs/heads/main", fromHash: one, toHash: zeros, type: "DELETE" }),
    {},
    { ignored: "deletion of main" },
  ],
  [
    "bitbucket-data-center",
    dataCenterPayload({ refId: "refs/heads/main", fromHash: two, toHash: one, type: "DELETE" }),
    {},
    { ignored: "deletion of main" },
  ],
  [
    "bitbucket-data-center",
    dataCenterPayload({ refId: "refs/heads/main", fromHash: [two] as never, toHash: [one] as never, type: "UPDATE" }),
    {},
    { push: { ref: "refs/heads/main", before: null, after: null } },
  ],
  [
    "bitbucket-data-center",
    dataCenterPayload({ refId: "refs/tags/main", fromHash: zeros, toHash: one, type: "ADD" }),
    {},
    { ignored: "tag main" },
  ],
  ["bitbucket-data-center", { changes: null }, {}, { fault: "the push names no ref" }],
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
