/** Bitbucket Cloud. The receiver does not verify its deliveries yet. */
import { type GitHost, hmacShape } from "./git-host.ts";

export const bitbucket: GitHost = {
  name: "bitbucket",
  // GitHub uses this name for SHA-1; Bitbucket's prefix says SHA-256.
  signatures: [hmacShape("x-hub-signature")],
  deliveryHeader: "x-request-uuid",
  publishedPort: 9463,
};
