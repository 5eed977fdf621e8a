/**
 * What can become of a delivery: one row for each way, with the layer, the fix, and the evidence that it leaves in each
 * source. Those that Cloudflare answers are in cloudflare.ts; the others have the texts that nginx and the receiver of
 * this project answer. `trace`, the canary and README's table read these rows.
 */
import { isRejection } from "../../service/journal.ts";
import { isOverBudget } from "../../service/receiver/limiter.ts";
import { servedByProxy } from "../contract.ts";
import type { Shape } from "./answers.ts";
import { cloudflare, cloudflareOutcomes } from "./cloudflare.ts";
import type { NginxLine, ReceiverLine, SecurityEvent } from "./evidence.ts";

/** As README's picture counts them; 0 is the git host. */
export const layers = [
  "the git host",
  "1 DNS",
  "2 WAF",
  "3 bot management",
  "4 Cloudflare to origin",
  "5 firewall",
  "6 nginx",
  "7 systemd",
  "8 receiver",
] as const;
export type Layer = (typeof layers)[number];

export type Outcome = {
  readonly name: string;
  /** The layer that rejected the delivery, or "delivered". */
  readonly layer: Layer | "delivered";
  /** A sentence without its full stop. `{origin}` in it is the host's address and port. */
  readonly what: string;
  /** `{rule}` in it is the rule of the security event. */
  readonly fix?: string;
  /** What the git host's record must lack. */
  readonly record?: "none";
  /** Any of these. */
  readonly answer: readonly Shape[];
  /** The security event that it leaves; left out where Cloudflare rejects nothing. */
  readonly event?: (event: SecurityEvent) => boolean;
  /** "none": it leaves no line. */
  readonly nginx: "none" | ((line: NginxLine) => boolean);
  readonly receiver: "none" | ((line: ReceiverLine) => boolean);
  /** The receiver's line may come later, or not at all. */
  readonly unlogged?: true;
};

const servedByReceiver = "pushgate-receiver";
const proxy = (status: number, text?: RegExp): Shape[] => [
  { by: servedByProxy, status: [status], ...(text !== undefined && { text }) },
];
const receiver = (...status: number[]): Shape[] => [{ by: servedByReceiver, status }];

const unset = (value: string): boolean => value === "" || value === "-";
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
const passed =
  (...statuses: number[]) =>
  ({ up_status, up_connect, status }: NginxLine): boolean =>
    !unset(up_connect) && statuses.includes(status) && up_status === `${status}`;
const entry =
  (...statuses: number[]) =>
  ({ status }: ReceiverLine): boolean =>
    statuses.includes(status);

/** An outcome whose answer is the receiver's: both logs have a line. */
const atReceiver = (row: Omit<Outcome, "answer" | "nginx" | "receiver" | "layer">, ...statuses: number[]): Outcome => ({
  layer: "8 receiver",
  ...row,
  answer: receiver(...statuses),
  nginx: passed(...statuses),
  receiver: entry(...statuses),
  // Of many within a second, the journal has the lines of the first.
  ...(statuses.every(isRejection) && { unlogged: true }),
});

/** nginx and the receiver have the same limit. */
const largeBody = {
  what: "the body is larger than pushgate:limits.bodyBytes",
  fix: "npx pulumi config set --path pushgate:limits.bodyBytes 26214400, then npx pulumi up.",
};

const compareSource =
  "Compare the source with the ranges that the git host publishes and with infra/networks.ts. A self-hosted git host's belong in hooks[].sources.";

export const outcomes: readonly Outcome[] = [
  {
    name: "never sent",
    layer: "the git host",
    what: "the git host has sent no push to this webhook",
    fix: "npx pushgate hook --set, which creates or corrects the webhook. GitHub sends no push above 25 MB, of more than 5,000 branches or of more than 3 tags, GitLab none of more than 3 branches or tags.",
    record: "none",
    answer: [],
    nginx: "none",
    receiver: "none",
  },
  ...cloudflareOutcomes,
  // nginx answers.
  {
    name: "client certificate",
    layer: "6 nginx",
    what: "nginx got no client certificate of this zone, a request that is no HTTP, or a header above 8 KiB",
    fix: "npx pulumi up, which presents the client certificate again.",
    answer: proxy(400),
    nginx: alone(400),
    receiver: "none",
  },
  {
    name: "not from Cloudflare",
    layer: "6 nginx",
    what: "the connection came from outside of Cloudflare's ranges, and the firewall let it in",
    fix: "npx pulumi preview shows what changed in the firewall.",
    answer: proxy(403, /does not come from Cloudflare/),
    nginx: alone(403),
    receiver: "none",
  },
  {
    name: "no client address",
    layer: "6 nginx",
    what: "Cloudflare sent no single client address",
    fix: "Remove the transform rule that changes CF-Connecting-IP.",
    answer: proxy(403, /no single client address/),
    nginx: alone(403),
    receiver: "none",
  },
  {
    name: "no hook",
    layer: "6 nginx",
    what: "no hook has this path",
    fix: "Enter the URL that npx pushgate hook prints.",
    answer: proxy(404),
    nginx: alone(404),
    receiver: "none",
  },
  {
    name: "method",
    layer: "6 nginx",
    what: "the method is not POST",
    fix: "Enter the URL that npx pushgate hook prints: a redirect turns POST into GET.",
    answer: proxy(405),
    nginx: alone(405),
    receiver: "none",
  },
  {
    name: "large body",
    layer: "6 nginx",
    ...largeBody,
    answer: proxy(413),
    nginx: alone(413),
    receiver: "none",
  },
  {
    name: "too many requests",
    layer: "6 nginx",
    what: "nginx counted too many requests of this source, which is outside of the git host's ranges",
    fix: compareSource,
    answer: proxy(429),
    nginx: (line) => line.limit === "REJECTED" && alone(429)(line),
    receiver: "none",
  },
  {
    name: "nginx failed",
    layer: "6 nginx",
    what: "nginx failed before it connected to the receiver: on a full disk it cannot store a body above 16 KiB",
    fix: "Free space on the host's disk; /var/log/nginx/pushgate-error.log has the reason. Then send the delivery again.",
    answer: proxy(500),
    nginx: alone(500),
    receiver: "none",
  },
  // systemd rejects the connection, and nginx reports it.
  {
    name: "outside of the ranges",
    layer: "7 systemd",
    what: "systemd rejected the connection: the source is outside of the git host's ranges",
    fix: compareSource,
    answer: proxy(403, /source not allowed/),
    nginx: (line) => line.in_ranges === "0" && refused(403)(line),
    receiver: "none",
  },
  {
    name: "socket",
    layer: "7 systemd",
    what: "the source is inside of the ranges, and the receiver's socket did not accept the connection",
    fix: "npx pushgate status shows what the guard found; npx pulumi up repairs it.",
    answer: proxy(503),
    nginx: (line) => line.in_ranges === "1" && refused(503)(line),
    receiver: "none",
  },
  // The receiver took the connection, and did not answer.
  {
    name: "receiver closed",
    layer: "8 receiver",
    what: "the receiver closed the connection without an answer",
    fix: "npx pushgate logs receiver",
    // Cloudflare may answer with its own page in place of this one and the next.
    answer: [...proxy(502), ...cloudflare(502)],
    nginx: ({ status, up_connect }) => status === 502 && !unset(up_connect),
    receiver: "none",
  },
  {
    name: "receiver late",
    layer: "8 receiver",
    what: "the receiver did not answer in time",
    fix: "npx pushgate logs receiver: its disk, or the host, is slow.",
    answer: [...proxy(504), ...cloudflare(504, 0)],
    nginx: ({ status, up_connect }) => [499, 504].includes(status) && !unset(up_connect),
    receiver: entry(499),
    // A receiver that hangs, or does not start, writes nothing.
    unlogged: true,
  },
  // The receiver answers.
  atReceiver(
    {
      name: "signature",
      what: "the receiver found no signature, or one of another secret",
      fix: "Enter the secret that npx pushgate hook prints at the git host.",
    },
    401,
  ),
  atReceiver(
    {
      name: "no such hook",
      what: "the receiver has no hook of this path, or the method is not POST",
      fix: "npx pulumi up, then enter the URL that npx pushgate hook prints.",
    },
    ...[404, 405],
  ),
  atReceiver(
    {
      name: "too large",
      ...largeBody,
    },
    413,
  ),
  atReceiver(
    {
      name: "content type",
      what: "the content type is not application/json",
      fix: "Set application/json at the git host.",
    },
    415,
  ),
  {
    ...atReceiver(
      {
        name: "no place",
        what: "too many requests of this source were open",
        fix: "Send the delivery again at the git host.",
      },
      429,
    ),
    receiver: (line) => entry(429)(line) && !isOverBudget(line.reason),
  },
  {
    ...atReceiver(
      {
        name: "budget",
        what: "the receiver rejected the delivery, as many of this source before",
        fix: "npx pushgate logs receiver has the reason for which it rejects them: correct that.",
      },
      429,
    ),
    receiver: (line) => entry(429)(line) && isOverBudget(line.reason),
  },
  atReceiver(
    {
      name: "large headers",
      what: "the delivery's headers are larger than 8 KiB",
      fix: "Remove what adds headers on the way, such as a transform rule at Cloudflare.",
    },
    431,
  ),
  atReceiver(
    {
      name: "slow",
      what: "the delivery did not arrive whole within 8 s",
      fix: "Send the delivery again at the git host.",
    },
    408,
  ),
  atReceiver(
    {
      name: "no push",
      what: "the body is no delivery of this git host",
      fix: "npx pushgate logs receiver has the reason. Check hooks[].gitHost.",
    },
    400,
  ),
  atReceiver(
    {
      name: "not spooled",
      what: "the disk does not take the delivery",
      fix: "Free space on the host's disk; npx pushgate logs receiver has the reason. Then send the delivery again.",
    },
    503,
  ),
  atReceiver({ name: "a bug", what: "the receiver failed", fix: "npx pushgate logs receiver" }, 500),
  {
    ...atReceiver({ name: "ignored", what: "the receiver ignored it, as it is no push to the hook's branch" }, 200),
    layer: "delivered",
  },
  { ...atReceiver({ name: "accepted", what: "the receiver accepted it" }, 202), layer: "delivered" },
];
