/** The outcomes that nginx answers: what it rejects itself, and what systemd rejects. The receiver's journal has no line. */
import { servedByProxy } from "../contract.ts";
import type { Shape } from "./answers.ts";
import type { NginxLine } from "./evidence.ts";
import type { Outcome } from "./outcomes.ts";

/** An answer of nginx's with this status, and with this in its text. */
export const proxy = (status: number, text?: RegExp): Shape[] => [
  { by: servedByProxy, status: [status], ...(text !== undefined && { text }) },
];

export const unset = (value: string): boolean => value === "" || value === "-";
/** nginx answered by itself. */
const alone =
  (status: number) =>
  (line: NginxLine): boolean =>
    line.status === status && unset(line.up_status);
/** nginx tried to connect to the receiver's socket: `up_status` is then its own 502 or 504. */
const refused =
  (status: number) =>
  (line: NginxLine): boolean =>
    line.status === status && !unset(line.up_status) && unset(line.up_connect);

/** nginx and the receiver have the same limit. */
export const largeBody = {
  what: "the body is larger than pushgate:limits.bodyBytes",
  fix: "npx pulumi config set --path pushgate:limits.bodyBytes 26214400, then npx pulumi up.",
};

const compareSource =
  "Compare the source with the ranges that the git host publishes and with infra/networks.ts. A self-hosted git host's belong in hooks[].sources.";

const rows: readonly Omit<Outcome, "receiver">[] = [
  {
    name: "client certificate",
    layer: "6 nginx",
    what: "nginx got no client certificate of this zone, a request that is no HTTP, or a header above 8 KiB",
    fix: "npx pulumi up, which presents the client certificate again.",
    answer: proxy(400),
    nginx: alone(400),
  },
  {
    name: "not from Cloudflare",
    layer: "6 nginx",
    what: "the connection came from outside of Cloudflare's ranges, and the firewall let it in",
    fix: "npx pulumi preview shows what changed in the firewall.",
    answer: proxy(403, /does not come from Cloudflare/),
    nginx: alone(403),
  },
  {
    name: "no client address",
    layer: "6 nginx",
    what: "Cloudflare sent no single client address",
    fix: "Remove the transform rule that changes CF-Connecting-IP.",
    answer: proxy(403, /no single client address/),
    nginx: alone(403),
  },
  {
    name: "no hook",
    layer: "6 nginx",
    what: "no hook has this path",
    fix: "Enter the URL that npx pushgate hook prints.",
    answer: proxy(404),
    nginx: alone(404),
  },
  {
    name: "method",
    layer: "6 nginx",
    what: "the method is not POST",
    fix: "Enter the URL that npx pushgate hook prints: a redirect turns POST into GET.",
    answer: proxy(405),
    nginx: alone(405),
  },
  {
    name: "large body",
    layer: "6 nginx",
    ...largeBody,
    answer: proxy(413),
    nginx: alone(413),
  },
  {
    name: "too many requests",
    layer: "6 nginx",
    what: "nginx counted too many requests of this source, which is outside of the git host's ranges",
    fix: compareSource,
    answer: proxy(429),
    nginx: (line) => line.limit === "REJECTED" && alone(429)(line),
  },
  {
    name: "nginx failed",
    layer: "6 nginx",
    what: "nginx failed before it connected to the receiver: on a full disk it cannot store a body above 16 KiB",
    fix: "Free space on the host's disk; /var/log/pushgate-nginx/error.log has the reason. Then send the delivery again.",
    answer: proxy(500),
    nginx: alone(500),
  },
  // systemd rejects the connection, and nginx reports it.
  {
    name: "outside of the ranges",
    layer: "7 systemd",
    what: "systemd rejected the connection: the source is outside of the git host's ranges",
    fix: compareSource,
    answer: proxy(403, /source not allowed/),
    nginx: (line) => line.in_ranges === "0" && refused(403)(line),
  },
  {
    name: "unreachable socket",
    layer: "7 systemd",
    what: "the source is inside of the ranges, and the receiver's socket did not accept the connection",
    fix: "npx pushgate status shows what the guard found; npx pulumi up repairs it.",
    answer: proxy(503),
    nginx: (line) => line.in_ranges === "1" && refused(503)(line),
  },
];

export const proxyOutcomes: readonly Outcome[] = rows.map((row) => ({ ...row, receiver: "none" }));
