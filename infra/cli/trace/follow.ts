/** Entries of the git host's delivery history, followed into the hosts' logs, by one connection to each host. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Recorded, RecordedAnswer } from "../../../service/git-hosts/api/api.ts";
import { printable, printableLines } from "../../../service/printable.ts";
import { paired } from "../../trace/attempts.ts";
import type { Evidence } from "../../trace/evidence.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { UserError } from "../../user-error.ts";
import { type Options, ofStack } from "../command.ts";
import { isDeliveryId } from "../site/logs.ts";
import { accessOf } from "../stack.ts";
import type { Source } from "../webhook/webhooks.ts";
import { atCloudflare, type Looked } from "./cloudflare.ts";
import { onHosts } from "./hosts.ts";

export type RecordedAttempt = Source & { readonly recorded: Recorded };

/** Of all attempts at one delivery to one host: attempts at it to several hosts have one id. */
export const keyOf = ({ endpoint, recorded }: RecordedAttempt): string => `${endpoint.url} ${recorded.delivery}`;

/** Seconds until the git host's delivery history has a delivery that pushgate had it send. */
const patience = 40;

/** The entries since `send`, once `isComplete`; the newest first. Throws a UserError where that takes too long. */
export async function newEntries(
  { client, webhook }: Source,
  send: () => Promise<unknown>,
  isComplete: (entries: readonly Recorded[]) => boolean,
): Promise<Recorded[]> {
  const newest = await client.recorded(webhook, (_, count) => count >= 100);
  const known = new Set(newest.map(({ id }) => id));
  await send();
  for (let waited = 0; waited <= patience; waited++) {
    const all = await client.recorded(webhook, ({ id }) => known.has(id));
    const found = all.filter(({ id }) => !known.has(id));
    if (isComplete(found)) return found;
    await sleep(1000);
  }
  throw new UserError(
    `${client.hook.name}: after ${patience} s the git host's delivery history does not show what pushgate had it send. Run npx pushgate trace --hook ${client.hook.name} later.`,
  );
}

export async function follow(entries: readonly RecordedAttempt[], options: Options): Promise<Traced[]> {
  const ids = [...new Set(entries.map(({ recorded }) => recorded.delivery).filter(isDeliveryId))];
  const [logged, answers] = await Promise.all([onHosts(ids, options), answersOf(entries)]);
  const looked = await atCloudflare(answers, () => accessOf(ofStack(options)));
  const known = entries.map((entry, i) => ({ ...entry, answer: answers[i]!, looked: looked[i]! }));
  const groups = [...Map.groupBy(known, keyOf).values()];
  const judged = new Map(groups.flatMap((group) => judge(group, logged.get(group[0]!.recorded.delivery) ?? [])));
  return entries.map(({ recorded }) => judged.get(recorded)!);
}

async function answersOf(entries: readonly RecordedAttempt[]): Promise<RecordedAnswer[]> {
  const answers: RecordedAnswer[] = [];
  const next = entries.entries();
  const work = async (): Promise<void> => {
    for (const [i, { client, webhook, recorded }] of next) answers[i] = cleaned(await client.answer(webhook, recorded));
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return answers;
}

/** The git host repeats what any server has answered. */
const cleaned = ({ status, headers, body }: RecordedAnswer): RecordedAnswer => ({
  status,
  headers: Object.fromEntries(Object.entries(headers).map((header) => header.map((text) => printable(text)))),
  ...(body !== undefined && { body: printableLines(body).slice(0, 2_000) }),
});

function judge(
  group: readonly (RecordedAttempt & { readonly answer: RecordedAnswer; readonly looked: Looked })[],
  logged: readonly Evidence[],
): [Recorded, Traced][] {
  const { hook, host } = group[0]!.endpoint;
  const here = logged.filter((one) => one.host === host);
  // With the host's state, and without "none" of a log that could not be read.
  const none = here.find(({ time }) => time === undefined) ?? ({ nginx: "none", receiver: "none" } as const);
  const entries = group.map(({ recorded, answer: { status } }) => ({ ...recorded, status }));
  const lined = here.filter(({ time }) => time !== undefined);
  const attempts = paired(entries, lined);
  return group.map(({ recorded, answer, looked }, i) => {
    const { time, kind, delivery } = recorded;
    const evidence: Evidence = { ...(attempts[i] ?? none), answer, ...looked, host, ...(time && { time }) };
    const about = { hook: hook.name, delivery: printable(delivery), kind: printable(kind) };
    return [recorded, { ...evidence, ...about, ...verdict(evidence) }];
  });
}
