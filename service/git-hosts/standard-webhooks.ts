/** Any sender of Standard Webhooks that is no git host, such as a content management system: each delivery is a push. */
import type { GitHost } from "./git-host.ts";
import { notAnObject, parsePayload } from "./payload.ts";
import { standardFault, standardShape, verifyStandard } from "./standard-signature.ts";

export const standardWebhooks: GitHost = {
  name: "standard-webhooks",
  mark: "webhook-id",
  anyRepository: true,
  webhookPage: "the sender's page of webhooks",
  secretField: () => "signing secret",
  keys: "all",
  signatures: [standardShape],
  deliveryHeader: "webhook-id",
  dialect: {
    signatureFault: standardFault,
    verify: verifyStandard,
    decide: (_headers, body, branch) =>
      parsePayload(body) ? { push: { ref: `refs/heads/${branch}`, before: null, after: null } } : notAnObject,
  },
};
