/** The outcomes at the receiver, which answers, or accepts the connection and does not answer. */
import { isRejection } from "../../service/journal.ts";
import { isOverBudget } from "../../service/receiver/limiter.ts";
import type { Shape } from "./answers.ts";
import { cloudflare } from "./cloudflare.ts";
import type { NginxLine, ReceiverLine } from "./evidence.ts";
import type { Outcome } from "./outcomes.ts";
import { largeBody, proxy, unset } from "./proxy.ts";

const servedByReceiver = "pushgate-receiver";
const receiver = (...status: number[]): Shape[] => [{ by: servedByReceiver, status }];

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
  // Above 100 rejections a second the journal has only the first 100 (service/journal.ts).
  ...(statuses.every(isRejection) && { unlogged: true }),
});

export const receiverOutcomes: readonly Outcome[] = [
  // The receiver accepted the connection, and did not answer.
  {
    name: "closed connection",
    layer: "8 receiver",
    what: "the receiver closed the connection without an answer",
    fix: "npx pushgate logs receiver",
    // Cloudflare may answer with its own page in place of this one and the next.
    answer: [...proxy(502), ...cloudflare(502)],
    nginx: ({ status, up_connect }) => status === 502 && !unset(up_connect),
    receiver: "none",
  },
  {
    name: "receiver timeout",
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
        name: "too many open requests",
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
        name: "too many rejected requests",
        what: "this source has more rejected requests than rejectionsPerMinute allows",
        fix: "npx pushgate logs receiver has the reason for which the receiver rejects them: correct that.",
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
    ...atReceiver(
      { name: "ignored", what: "the receiver ignored the delivery, as it is no push to the hook's branch" },
      200,
    ),
    layer: "delivered",
  },
  { ...atReceiver({ name: "accepted", what: "the receiver accepted the delivery" }, 202), layer: "delivered" },
];
