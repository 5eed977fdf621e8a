/** Bitbucket Data Center: self-hosted. It signs as Bitbucket Cloud does, and its payload has another form. */
import { bitbucketBody, longest, pingBody } from "./bitbucket-status.ts";
import { bitbucketDataCenterWebhooks, dataCenterPlace } from "./bitbucket-webhooks.ts";
import type { GitHost } from "./git-host.ts";
import { hmacSignature } from "./hmac-signature.ts";
import { decideChanges, listOf, notAnObject, otherEvent, parsePayload } from "./payload.ts";

const { shape, signed, ...signature } = hmacSignature("X-Hub-Signature", "sha256=");

export const bitbucketDataCenter: GitHost = {
  name: "bitbucket-data-center",
  mark: "x-event-key",
  webhookPage: "Repository settings > Webhooks > Create webhook",
  signatures: [shape],
  deliveryHeader: "x-request-id",
  dialect: {
    ...signature,
    decide: (headers, body, branch) => {
      const event = headers["x-event-key"] as string | undefined;
      // {changes: [{refId, fromHash, toHash, type}]}
      const payload = parsePayload(body, 3);
      if (!payload) return notAnObject;
      if (event === "diagnostics:ping") return { ignored: "ping" };
      if (event !== "repo:refs_changed") return otherEvent(event);
      return decideChanges(
        listOf(payload.changes).map(({ refId: ref, fromHash: before, toHash: after, type }) => ({
          ref,
          before,
          after,
          deleted: type === "DELETE",
        })),
        branch,
      );
    },
  },
  ping: (secret, id) => ({
    headers: { "x-event-key": "diagnostics:ping", "x-request-id": id, ...signed(secret, pingBody) },
    body: pingBody,
  }),
  status: {
    tokenPage: "Repository settings > HTTP access tokens",
    permission: "Repository read",
    longest,
    request: (repository, result, token) => {
      const { base, path } = dataCenterPlace(repository);
      return {
        url: `${base}/rest/api/latest/${path}/commits/${result.commit}/builds`,
        headers: { authorization: `Bearer ${token}` },
        body: bitbucketBody(result, `${base}/${path}/commits/${result.commit}`),
      };
    },
  },
  webhooks: bitbucketDataCenterWebhooks,
};
