/** What the rooms of infra must agree on. */
export { servedByReceiver, webhookPath } from "../service/contract.ts";

/** The one other path that Cloudflare lets through: nginx answers it with 204, which shows that the way is open. */
export const canaryPath = "/.pushgate";

/** `X-Served-By` of the answers that nginx gives itself. */
export const servedByProxy = "pushgate-proxy";

export const vendorUrl = "https://api.cloudflare.com/client/v4";

/** The key behind the origin certificate; it never leaves the host. */
export const originKey = "/etc/pushgate/tls/origin.key";

/** The errors of nginx's three answers with 403, which the body alone tells apart. */
export const forbidden = {
  notFromCloudflare: "the request does not come from Cloudflare",
  noClient: "Cloudflare sent no single client address: see whether a transform rule changes CF-Connecting-IP",
  outOfRange: "source not allowed",
};

/** The common name of the CA of the client certificate, for which X.509 allows 64 characters. */
export const issuerOf = (zone: string): string => `pushgate origin pulls of ${zone}`.slice(0, 64);
