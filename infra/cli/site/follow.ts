/** Entries of the git host's delivery history, followed into the hosts' logs, by one connection to each host. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Recorded, RecordedAnswer, Webhook } from "../../../service/git-hosts/api/api.ts";
import { printable, printableLines } from "../../../service/printable.ts";
import { paired } from "../../trace/attempts.ts";
import type { Evidence } from "../../trace/evidence.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { type Options, ofStack } from "../command.ts";
import type { Endpoint } from "../endpoints.ts";
import { accessOf, UserError } from "../stack.ts";
import { atCloudflare, type Looked } from "../trace/cloudflare.ts";
import { onHosts } from "../trace/hosts.ts";
import type { WebhookClient } from "../webhook/webhooks.ts";
import { isDeliveryId } from "./logs.ts";

/** One attempt at a delivery to one host, as the git host recorded it. */
export type RecordedAttempt = {
  readonly endpoint: Endpoint;
  readonly client: WebhookClient;
  readonly webhook: Webhook;
  readonly recorded: Recorded;
};

/** Seconds until the git host's delivery history has a delivery that pushgate had it send. */
const patience = 40;
/** Newest entries that are read before `send`, so that the entries of what was sent can be recognized. */
const look = 100;

/** The entries since `send`, once `isComplete`; the newest first. Throws a UserError where that takes too long. */
export async function newEntries(
  client: WebhookClient,
  webhook: Webhook,
  send: () => Promise<void>,
  isComplete: (entries: readonly Recorded[]) => boolean,
): Promise<Recorded[]> {
  const known = new Set((await client.recorded(webhook, (_, count) => count >= look)).map(({ id }) => id));
  await send();
  for (let waited = 0; ; waited++) {
    const all = await client.recorded(webhook, ({ id }) => known.has(id));
    const found = all.filter(({ id }) => !known.has(id));
    if (isComplete(found)) return found;
    if (waited >= patience)
      throw new UserError(
        `${client.hook.name}: after ${patience} s the git host's delivery history does not show what pushgate had it send. Run npx pushgate trace --hook ${client.hook.name} later.`,
      );
    await sleep(1000);
  }
}

/** In the order of the entries. */
export async function follow(entries: readonly RecordedAttempt[], options: Options): Promise<Traced[]> {
  const ids = [...new Set(entries.map(({ recorded }) => recorded.delivery).filter(isDeliveryId))];
  const byWebhook = [...Map.groupBy(entries, ({ webhook }) => webhook)];
  const [logged, ...answers] = await Promise.all([
    onHosts(ids, options),
    ...byWebhook.map(([webhook, group]) =>
      group[0]!.client.answers(
        webhook,
        group.map(({ recorded }) => recorded),
      ),
    ),
  ]);
  const shown = answers.flat().map(cleaned);
  const looked = await atCloudflare(shown, () => accessOf(ofStack(options)));
  const known = byWebhook
    .flatMap(([, group]) => group)
    .map((entry, i) => ({ entry, answer: shown[i]!, looked: looked[i]! }));
  const groups = Map.groupBy(known, ({ entry }) => entry.webhook).values();
  const found = [...groups].flatMap((group) => judged(group, logged));
  return entries.map((entry) => found.find((one) => one.entry === entry)!.followed);
}

/** The git host repeats what any server has answered. */
const cleaned = ({ status, headers, body }: RecordedAnswer): RecordedAnswer => ({
  status,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [printable(name), printable(value)])),
  ...(body !== undefined && { body: printableLines(body).slice(0, 2_000) }),
});

/** Of one webhook. Attempts at one delivery to several hosts have one id. */
function judged(
  known: readonly { readonly entry: RecordedAttempt; readonly answer: RecordedAnswer; readonly looked: Looked }[],
  logged: ReadonlyMap<string, readonly Evidence[]>,
): { readonly entry: RecordedAttempt; readonly followed: Traced }[] {
  return [...Map.groupBy(known, ({ entry }) => entry.recorded.delivery)].flatMap(([delivery, group]) => {
    const { name } = group[0]!.entry.endpoint.hook;
    const { host } = group[0]!.entry.endpoint;
    const all = logged.get(delivery) ?? [];
    const here = all.filter((one) => one.host === host && one.time !== undefined);
    // With the host's state, and without "none" of a log that could not be read.
    const unlogged =
      all.find((one) => one.host === host && one.time === undefined) ?? ({ nginx: "none", receiver: "none" } as const);
    const recorded = group.map(({ entry: { recorded }, answer: { status } }) => ({ ...recorded, status }));
    const attempts = paired(recorded, here);
    return group.map(({ entry, answer, looked }, i) => {
      const { time, kind } = entry.recorded;
      const evidence: Evidence = { ...(attempts[i] ?? unlogged), answer, ...looked };
      const about = { hook: name, host, delivery: printable(delivery), kind: printable(kind), ...(time && { time }) };
      return { entry, followed: { ...evidence, ...about, ...verdict(evidence) } };
    });
  });
}
