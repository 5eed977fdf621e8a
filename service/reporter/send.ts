/** Sends what waits in the outbox, until nothing waits. A dead recipient does not delay the others (decision 027). */
import { setTimeout as sleep } from "node:timers/promises";
import { type Report, removeReport, waiting } from "../builder/outbox.ts";
import { failed } from "../builder/run/setback.ts";
import { type Answer, exchange, type Outgoing } from "../exchange.ts";
import { pauseOf } from "../pause.ts";
import { printable } from "../printable.ts";
import { handOver } from "./mail.ts";

export type Channel = {
  readonly host: string;
  /** Appears in no text of the journal, also where the recipient repeats it. */
  readonly secret: string;
  /** Of sendmail, which takes the body. */
  readonly socket?: string | undefined;
  readonly postOf: (report: Report) => Outgoing | undefined;
};

export type Channels = Readonly<Record<Report["to"], Channel>>;

export type Line = {
  readonly to: Report["to"] | null;
  readonly result: "sent" | "delayed" | "dropped";
  readonly reason: string;
  readonly host?: string;
  readonly state?: Report["state"];
  readonly commit?: string | null;
};

/** Milliseconds, but `answer` in seconds. `look`: between two looks into the outbox while a recipient pauses. */
export const terms = { first: 5_000, longest: 15 * 60_000, age: 24 * 3_600_000, look: 2_000, answer: 15 };
export type Terms = Readonly<typeof terms>;

/** Milliseconds: a server may not have the reporter wait longer. */
const longestAsked = 3_600_000;

type Rest = { readonly attempts: number; readonly until: number; readonly reason: string };

/** Returns whether all were sent. Throws before it connects where `mayConnect` forbids that. */
export async function sendAll(
  folder: string,
  channels: Channels,
  journal: (line: Line) => void,
  mayConnect: () => Promise<boolean>,
  { first, longest, age, look, answer }: Terms = terms,
): Promise<boolean> {
  const rests: Partial<Record<Report["to"], Rest>> = {};
  let allSent = true;
  const drop = (name: Buffer, { reason, ...about }: Omit<Line, "result">) => {
    removeReport(folder, name);
    journal({ ...about, result: "dropped", reason });
    allSent = false;
  };
  for (;;) {
    const found = waiting(folder);
    if (found.length === 0) return allSent;
    let tried = false;
    const sendTo = async (own: typeof found): Promise<void> => {
      for (const [i, { name, report }] of own.entries()) {
        if (report === undefined) {
          drop(name, { to: null, reason: `${printable(`${name}`, 100)} is no report of the builder` });
          continue;
        }
        const { to, state, commit } = report;
        const channel = channels[to];
        const post = channel?.postOf(report);
        // Of the reports on a commit, and of the turns, only the newest is of use.
        const isOld = own.slice(i + 1).some(({ report: later }) => isNewer(later!, report));
        if (isOld || !post || !channel) {
          removeReport(folder, name);
          continue;
        }
        const about = { to, host: channel.host, state, commit };
        const rest = rests[to];
        if (rest && Date.now() - Date.parse(report.at) > age) {
          drop(name, { ...about, reason: `${rest.reason}, for ${Math.round(age / 3_600_000)} h` });
          continue;
        }
        if (rest && performance.now() < rest.until) continue;
        if (!(await mayConnect())) throw open();
        tried = true;
        const { reason, ...result } = await send(channel, post, answer);
        if (result.kind === "rejected") drop(name, { ...about, reason });
        else if (result.kind === "sent") {
          removeReport(folder, name);
          delete rests[to];
          journal({ ...about, result: "sent", reason: reason.split(" ", 1)[0]! }); // the status
        } else {
          const attempts = (rest?.attempts ?? 0) + 1;
          const pause = Math.max(Math.min(first * 2 ** (attempts - 1), longest), result.pause ?? 0);
          rests[to] = { attempts, until: performance.now() + pause, reason };
          const next = `the next try is in ${Math.ceil(pause / 1000)} s`;
          journal({ ...about, result: "delayed", reason: `${reason}; ${next}` });
        }
      }
    };
    const recipients = new Set(found.map(({ report }) => report?.to));
    await Promise.all([...recipients].map((to) => sendTo(found.filter(({ report }) => report?.to === to))));
    if (!tried && waiting(folder).length > 0) await sleep(look);
  }
}

const open = () => failed("the nft table that limits this account's network is gone. The unit's next start loads it.");

/** Of two for one recipient. */
const isNewer = (later: Report, { to, commit, state }: Report): boolean => {
  // Before a purge of all, none is of use.
  if (to === "purge") return later.paths === undefined;
  return to === "status" ? later.commit === commit : later.state !== "published" && state !== "published";
};

/** Sends a test to each recipient of `site.notify`, once. */
export async function testAll(channels: Channels, mayConnect: () => Promise<boolean>, { answer }: Terms = terms) {
  if (!(await mayConnect())) throw open();
  const said = "npx pushgate notify requested this message.";
  const at = new Date().toISOString();
  const tested = Object.entries(channels).map(async ([to, channel]) => {
    const post = channel.postOf({ to, commit: null, state: "test", reason: said, at });
    if (post === undefined) return [];
    const { kind: result, reason } = await send(channel, post, answer);
    return [{ to, host: channel.host, result, reason }];
  });
  return (await Promise.all(tested)).flat();
}

/** `pause`: milliseconds until the recipient takes requests again, as it answered. */
type Sent = Readonly<{ kind: "sent" | "rejected" | "delayed"; reason: string; pause?: number }>;

/** `reason`: the status and the first 300 characters of an answer. */
async function send({ secret, socket }: Channel, what: Outgoing, seconds: number): Promise<Sent> {
  const unanswered = (error: Error): Sent => ({ kind: "delayed", reason: error.message });
  const sent: Sent =
    socket === undefined
      ? await exchange(what, { seconds }).then(judged, unanswered)
      : await handOver(socket, what.body ?? "", seconds);
  const reason = secret === "" ? sent.reason : sent.reason.replaceAll(secret, "…");
  return { ...sent, reason: printable(reason, 300) };
}

function judged({ status, headers, text }: Answer): Sent {
  const reason = `${status} ${text}`.replace(/\s+/g, " ").trim();
  if (status >= 200 && status < 300) return { kind: "sent", reason };
  if (status >= 300 && status < 400)
    return { kind: "rejected", reason: `${status}, a redirect, which is not followed` };
  const pause = pauseOf({ status, headers });
  if (status >= 500 || status === 408 || status === 429 || pause !== undefined)
    return { kind: "delayed", reason, pause: Math.min(pause ?? 0, longestAsked) };
  return { kind: "rejected", reason };
}
