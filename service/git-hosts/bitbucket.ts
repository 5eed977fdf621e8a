/** Bitbucket Cloud; networks.ts has its source ranges. It sends no payload above 256 KB. */
import { bitbucketBody, longest, pingBody } from "./bitbucket-status.ts";
import { bitbucketWebhooks } from "./bitbucket-webhooks.ts";
import type { GitHost } from "./git-host.ts";
import { hmacSignature } from "./hmac-signature.ts";
import {
  type Change,
  decideChanges,
  type Json,
  listOf,
  notAnObject,
  objectOf,
  otherEvent,
  parsePayload,
} from "./payload.ts";
import { segments } from "./repository.ts";

// GitHub uses this header for SHA-1; Bitbucket's prefix says SHA-256.
const { shape, signed, ...signature } = hmacSignature("X-Hub-Signature", "sha256=");

/** A branch or tag before or after a push. */
const refOf = ({ type, name }: Json): string | undefined => {
  if (typeof name !== "string") return undefined;
  return type === "tag" ? `refs/tags/${name}` : `refs/heads/${name}`;
};

/** `new` is null for a deleted ref, `old` for a new one. */
function changeOf({ old, new: now }: Json): Change {
  const hash = (side: unknown): unknown => objectOf(objectOf(side).target).hash;
  return { ref: refOf(objectOf(now ?? old)), before: hash(old), after: hash(now), deleted: now === null };
}

export const bitbucket: GitHost = {
  name: "bitbucket",
  mark: "x-hook-uuid",
  webhookPage: "Repository settings > Webhooks > Add webhook",
  domains: ["bitbucket.org", "altssh.bitbucket.org"],
  signatures: [shape],
  deliveryHeader: "x-request-uuid",
  publishedPort: 9463,
  dialect: {
    ...signature,
    decide: (headers, body, branch) => {
      // {push: {changes: [{new: {target: {hash}}}]}}
      const payload = parsePayload(body, 6);
      if (!payload) return notAnObject;
      const event = headers["x-event-key"] as string | undefined;
      if (event !== "repo:push") return otherEvent(event);
      return decideChanges(listOf(objectOf(payload.push).changes).map(changeOf), branch);
    },
  },
  ping: (secret, id) => ({
    headers: {
      "x-event-key": "diagnostics:ping",
      "x-hook-uuid": id,
      "x-request-uuid": id,
      ...signed(secret, pingBody),
    },
    body: pingBody,
  }),
  status: {
    tokenPage: "Repository settings > Access tokens",
    // Enough to set a result: Atlassian's change notice of 2020-11-20.
    permission: "Repositories: Read",
    longest,
    request: ({ names }, result, token) => ({
      url: `https://api.bitbucket.org/2.0/repositories/${segments(names)}/commit/${result.commit}/statuses/build`,
      headers: { authorization: `Bearer ${token}` },
      body: bitbucketBody(result, `https://bitbucket.org/${segments(names)}/commits/${result.commit}`),
    }),
  },
  webhooks: bitbucketWebhooks,
};
