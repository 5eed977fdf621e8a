/** Bitbucket Data Center: self-hosted. It signs as Bitbucket Cloud does, and its payload has another form. */
import { bitbucketBody, longest } from "./bitbucket-status.ts";
import { type Repository, segments } from "./commit-status.ts";
import type { GitHost } from "./git-host.ts";
import { hmacSignature } from "./hmac-signature.ts";
import { decideChanges, notAnObject, objectAt, otherEvent, parsePayload } from "./payload.ts";

const { shape, ...signature } = hmacSignature("X-Hub-Signature", "sha256=");

/** Over https its address is `<base>/scm/<project>/<repository>.git`, over SSH without `scm`. */
function placeOf({ origin, names }: Repository): { readonly base: string; readonly path: string } {
  const [project = "", name = ""] = names.slice(-2);
  const before = names.slice(0, -2).filter((segment, i, all) => segment !== "scm" || i < all.length - 1);
  const base = [origin, ...before.map(encodeURIComponent)].join("/");
  return { base, path: `projects/${segments([project])}/repos/${segments([name])}` };
}

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
      const changes = Array.isArray(payload.changes) ? payload.changes.map(objectAt) : [];
      return decideChanges(
        changes.map(({ refId: ref, fromHash: before, toHash: after, type }) => ({
          ref,
          before,
          after,
          deleted: type === "DELETE",
        })),
        branch,
      );
    },
  },
  status: {
    tokenPage: "Repository settings > HTTP access tokens",
    permission: "Repository read",
    longest,
    request: (repository, result, token) => {
      const { base, path } = placeOf(repository);
      return {
        url: `${base}/rest/api/latest/${path}/commits/${result.commit}/builds`,
        headers: { authorization: `Bearer ${token}` },
        body: bitbucketBody(result, `${base}/${path}/commits/${result.commit}`),
      };
    },
  },
};
