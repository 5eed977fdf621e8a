/**
 * GitLab's headers and payload. GitLab 19 signs with a signing token, a key of Standard Webhooks. Older versions send
 * the secret token itself, the weaker of both: whatever reads one delivery can send others. `webhook-id` and
 * `webhook-timestamp` come with either, so that only `webhook-signature` shows that a delivery is signed.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { cut } from "./commit-status.ts";
import type { GitHost } from "./git-host.ts";
import { gitlabApi, gitlabWebhooks } from "./gitlab-webhooks.ts";
import { decideChanges, notAnObject, otherEvent, parsePayload } from "./payload.ts";
import { isMeantAsKey, signedHeaders, standardFault, standardShape, verifyStandard } from "./standard-signature.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest();

/** Compares digests, which have one length, so that its time reveals nothing. A key is no token. */
const isToken = (secret: string, given: string): boolean =>
  secret !== "" && !isMeantAsKey(secret) && timingSafeEqual(sha256(secret), sha256(given));

const longest = 255;
const states = { pending: "running", success: "success", failure: "failed" } as const;

export const gitlabLike = {
  mark: "x-gitlab-event",
  webhookPage: "Settings > Webhooks > Add new webhook",
  secretField: (secret) => (isMeantAsKey(secret) ? "signing token" : "secret token"),
  keys: "some",
  signatures: [standardShape, { header: "x-gitlab-token", prefix: "" }],
  // Since GitLab 17.4. Retries and resends keep it; each has another X-Gitlab-Event-UUID.
  deliveryHeader: "idempotency-key",
  dialect: {
    signatureFault: (headers) => {
      if (headers["x-gitlab-token"]) return undefined;
      if (headers["webhook-signature"] !== undefined) return standardFault(headers);
      return "webhook-signature and X-Gitlab-Token are missing. Set the hook's signing token at the git host.";
    },
    verify: (secret, body, headers) =>
      verifyStandard(secret, body, headers) || isToken(secret, String(headers["x-gitlab-token"] ?? "")),
    decide: (headers, body, branch) => {
      const event = headers["x-gitlab-event"] as string | undefined;
      const payload = parsePayload(body);
      if (!payload) return notAnObject;
      if (event !== "Push Hook" && event !== "Tag Push Hook") return otherEvent(event);
      const { ref, before, after } = payload;
      return decideChanges([{ ref, before, after, deleted: false }], branch);
    },
  },
  // GitLab itself has no ping: its test is a push.
  ping: (secret, id) => {
    const body = JSON.stringify({ object_kind: "ping" });
    const signature = isMeantAsKey(secret)
      ? signedHeaders(secret, id, Math.floor(Date.now() / 1000), body)
      : { "x-gitlab-token": secret };
    return { headers: { "x-gitlab-event": "Ping", "idempotency-key": id, ...signature }, body };
  },
  status: {
    tokenPage: "Settings > Access tokens of this project",
    permission: "role Developer, scope api",
    longest,
    request: (repository, { commit, state, reason, context, url }, token) => ({
      url: `${gitlabApi(repository)}/statuses/${commit}`,
      headers: { "private-token": token },
      body: { state: states[state], description: cut(reason, longest), name: context, target_url: url },
    }),
  },
  webhooks: gitlabWebhooks,
} as const satisfies Omit<GitHost, "name">;
