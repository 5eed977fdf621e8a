/** What two layers must agree on, where one lies at Cloudflare (edge/) and the other on the host (host/). */

/** Where Cloudflare delivers a hook's pushes to: nginx, the receiver and the WAF's rules know the same path. */
export const webhookPath = (hook: string): string => `/webhook/${hook}`;

/** The one other path that Cloudflare lets through: nginx answers it with 204, which shows that the way is open. */
export const canaryPath = "/.pushgate";

/** `X-Served-By` of the answers that nginx gives itself. The receiver's own name is in service/receiver. */
export const servedByProxy = "pushgate-proxy";

/** The key behind the origin certificate; it never leaves the host. */
export const originKey = "/etc/pushgate/tls/origin.key";
