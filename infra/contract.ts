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

/** urn:pulumi:stack::project::type::name, in which only the name may hold "::": an IPv6 address's record does. */
export const nameOf = (urn: string): string => urn.split("::").slice(3).join("::");

/** The name of the resource that is made last for a host: in a state it shows that `up` has finished with the host. */
export const lockOf = ({ name }: { readonly name: string }): string => `${name} lock`;

/** The name of the resource that applies a host's layer. */
export const commandOf = ({ name }: { readonly name: string }, layer: string): string => `${name}-${layer}`;

/** What one item has that is not as declared: a line of `npx pushgate audit --json`. No value is a secret. */
export type Drift = {
  readonly host: string | null; // null: at Cloudflare or at a git host
  /** A layer of the host; without a host a resource of the program, "published ranges". "webhook": with the host's name. */
  readonly layer: string;
  readonly item: string;
  readonly kind: string;
  readonly before: unknown; // what is there; null where nothing is, or what is too long or not readable to show
  readonly after: unknown; // what is declared; null where nothing is
};

/** Before its place is known, with a text for a person; a diff follows on further lines. */
export type DriftItem = Omit<Drift, "host" | "layer"> & { readonly text: string };

const driftMark = "pushgate drift ";
/** The program hands a Drift to `npx pushgate audit` as a debug message, which preview does not show. */
export const driftMessage = (drift: Drift): string =>
  // Pulumi takes <{%reset%}> and the like for colors.
  driftMark + JSON.stringify(drift).replaceAll("<", "\\u003c");
export const driftIn = (message: string): Drift | undefined =>
  message.startsWith(driftMark) ? JSON.parse(message.slice(driftMark.length)) : undefined;

/** The common name of the CA of the client certificate, for which X.509 allows 64 characters. */
export const issuerOf = (zone: string): string => `pushgate origin pulls of ${zone}`.slice(0, 64);
