/** What the rooms of infra must agree on. */
export { servedByReceiver, webhookPath } from "../service/contract.ts";

/** The one other path that Cloudflare lets through: nginx answers it with 204, which shows that the way is open. */
export const canaryPath = "/.pushgate";

/** `X-Served-By` of the answers that nginx gives itself. */
export const servedByProxy = "pushgate-proxy";

export const vendorUrl = "https://api.cloudflare.com/client/v4";

/** The key behind the origin certificate; it never leaves the host. */
export const originKey = "/etc/pushgate/tls/origin.key";
