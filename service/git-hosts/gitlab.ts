/** GitLab.com. The receiver does not verify its deliveries yet. */
import type { GitHost } from "./git-host.ts";

export const gitlab: GitHost = {
  name: "gitlab",
  // GitLab 19 signs; older versions send the secret. Both send `webhook-id` and `webhook-timestamp`, which prove nothing.
  signatures: [
    { header: "webhook-signature", prefix: "v1," },
    { header: "x-gitlab-token", prefix: "" },
  ],
  deliveryHeader: "x-gitlab-event-uuid",
  publishedPort: 9462,
};
