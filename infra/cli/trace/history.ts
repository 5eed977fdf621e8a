/** `npx pushgate trace` over the git host's delivery history: the last failure, the newest entries, recent failures. */
import type { Recorded, Webhook } from "../../../service/git-hosts/api/api.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { all, confirm, hooksNamed, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { follow, newEntries, type RecordedAttempt } from "../site/follow.ts";
import { readStack, UserError } from "../stack.ts";
import { showPings } from "../webhook/ping.ts";
import { apiOf, assertOneOrigin, clientOf, neededClient, ownWebhook, type WebhookClient } from "../webhook/webhooks.ts";
import { orUserError } from "./hosts.ts";
import { countOf, exitOf, groupsText, lineOf, traceText } from "./text.ts";

export type HistoryOptions = Options & {
  hook?: string;
  last?: number;
  /** Milliseconds. */
  since?: number;
  redeliver?: true;
};

/** Deliveries whose answers are fetched and which are looked for on the hosts in one call. */
const most = 200;
const day = 24 * 3_600_000;

type Source = { readonly endpoint: Endpoint; readonly client: WebhookClient; readonly webhook: Webhook };

/** The webhooks whose delivery history can be read; throws a UserError where there is none. */
async function sourcesOf({ hook, ...options }: HistoryOptions): Promise<Source[]> {
  const endpoints = await endpointsOf(hook, options);
  const hooks = [...new Set(endpoints.map((endpoint) => endpoint.hook))];
  assertOneOrigin(hooks);
  const clients = new Map(
    hooks
      .filter((one) => hook !== undefined || clientOf(one)?.hasHistory())
      .map((one) => [one, neededClient(one, "read the git host's delivery history")]),
  );
  if (clients.size === 0) throw new UserError(noHistory(hooks));
  for (const client of clients.values())
    if (!client.hasHistory())
      throw new UserError(
        `${client.lacks()} Trace one by the id that its page shows: npx pushgate trace --delivery <id>`,
      );
  const found = await all(
    endpoints.map(async (endpoint) => {
      const client = clients.get(endpoint.hook);
      const webhook = client && (await orUserError(ownWebhook(client, endpoint)));
      if (!(webhook instanceof UserError)) return webhook === undefined ? [] : [{ endpoint, client: client!, webhook }];
      if (hook !== undefined) throw webhook;
      // Of all hooks, those without a webhook are named and left out.
      console.error(webhook.message);
      return [];
    }),
  );
  if (found.flat().length === 0) throw new UserError("there is no git host's delivery history to read.");
  return found.flat();
}

function noHistory(hooks: readonly Endpoint["hook"][]): string {
  const needs = hooks.flatMap((hook) => {
    const found = apiOf(hook);
    return found?.api.deliveries === undefined ? [] : [`${hook.name} needs ${found.needs}`];
  });
  const what =
    needs.length > 0 ? `${needs.join("; ")}.` : "No git host of this stack has an API for its delivery history.";
  return `there is no git host's delivery history to read. ${what}`;
}

/** Of each webhook the newest first. */
async function entriesOf(sources: readonly Source[], enough: (one: Recorded, count: number) => boolean) {
  const entries = sources.map(async (source) =>
    (await source.client.recorded(source.webhook, enough)).map((recorded) => ({ ...source, recorded })),
  );
  return (await all(entries)).flat();
}

/** The newest first; those without a time at the end, in the history's order. */
const later = (a: RecordedAttempt, b: RecordedAttempt): number =>
  (b.recorded.time ?? "").localeCompare(a.recorded.time ?? "");

/** A push that was not delivered. */
const hasFailed = ({ isPing, status }: Recorded): boolean => !isPing && !(status >= 200 && status < 300);

/** The newest attempt at each push, and those of which it failed. */
function newestOf(entries: readonly RecordedAttempt[]) {
  const pushes = entries.filter(({ recorded }) => !recorded.isPing);
  const byDelivery = Map.groupBy(pushes, ({ webhook, recorded }) => `${webhook.id} ${recorded.delivery}`);
  const newest = [...byDelivery.values()].map((attempts) => attempts[0]!);
  return { newest, failed: newest.filter(({ recorded }) => hasFailed(recorded)).sort(later) };
}

/** Prints deliveries with their verdicts, and sets the exit status. */
function show(found: readonly Traced[], text: string, { json }: Options): void {
  console.log(json ? JSON.stringify(found, null, 2) : text);
  process.exitCode = Math.max(0, ...found.map(exitOf));
}

async function showGroups(entries: readonly RecordedAttempt[], what: string, options: Options): Promise<void> {
  const found = await follow(entries, options);
  show(found, groupsText(found, what), options);
}

/** Prints what the history holds, as the options say, and sets the exit status. */
export async function traceHistory(options: HistoryOptions): Promise<void> {
  const sources = await sourcesOf(options);
  const days = Math.min(...sources.map(({ client }) => client.api.deliveries!.days));
  const { last, redeliver } = options;
  const since = options.since ?? (last === undefined && redeliver ? days * day : undefined);
  if (since !== undefined) {
    if (since > days * day)
      console.error(`The git host keeps ${days} days: what failed before is not in its delivery history.`);
    const from = new Date(Date.now() - since).toISOString();
    const isOld = ({ time }: Recorded): boolean => time !== undefined && time < from;
    const { newest, failed } = newestOf((await entriesOf(sources, isOld)).filter(({ recorded }) => !isOld(recorded)));
    const within = since < day ? "that time" : `${Math.round(since / day)} days`;
    return showFailed(failed, `${countOf(failed.length)} failed of ${newest.length} in ${within}`, options);
  }
  if (last !== undefined) {
    const found = (await entriesOf(sources, (_, count) => count >= last)).sort(later).slice(0, last);
    const what = `the last ${countOf(found.length)}`;
    if (redeliver) return showFailed(newestOf(found).failed, `failed of ${what}`, options);
    return showGroups(found, what, options);
  }
  const found = await entriesOf(sources, hasFailed);
  const [failed] = found.filter(({ recorded }) => hasFailed(recorded)).sort(later);
  if (failed === undefined) return showNone(found, days, options);
  // Follows the later attempts, too, so that their log lines are not taken for those of the failed attempt.
  const attempts = found.filter(
    ({ webhook, recorded }) => webhook === failed.webhook && recorded.delivery === failed.recorded.delivery,
  );
  const one = (await follow(attempts, options))[attempts.indexOf(failed)]!;
  show([one], `${lineOf(one)}\n${traceText(one)}`, options);
}

/** Of a history without a failed delivery; a history without any push is a verdict of its own. */
function showNone(found: readonly RecordedAttempt[], days: number, { json }: Options): void {
  const never = found.some(({ recorded }) => !recorded.isPing) ? [] : [verdict({ history: "none" })];
  if (json) return void console.log(JSON.stringify(never, null, 2));
  console.log(`No delivery has failed in the ${days} days that the git host keeps.`);
  for (const { what, fix } of never.flatMap(({ outcomes }) => outcomes))
    console.log(`${what}.\n  fix, if you pushed: ${fix}`);
}

/** The id of a delivery in the history of any webhook whose token is given: all attempts, or none. */
export async function recordedAs(delivery: string, { hook, ...options }: HistoryOptions): Promise<Traced[]> {
  const { hooks } = await readStack(ofStack(options));
  const readable = hooksNamed(hooks, hook).filter((one) => clientOf(one)?.hasHistory());
  if (readable.length === 0) return [];
  const endpoints = (await endpointsOf(hook, options)).filter((endpoint) =>
    readable.some(({ name }) => name === endpoint.hook.name),
  );
  assertOneOrigin(endpoints.map((endpoint) => endpoint.hook));
  const found: RecordedAttempt[] = [];
  for (const endpoint of endpoints) {
    const client = clientOf(endpoint.hook)!;
    const [webhook] = await client.own(endpoint);
    if (webhook === undefined) continue;
    const entries = await entriesOf([{ endpoint, client, webhook }], () => false);
    found.push(...entries.filter(({ recorded }) => recorded.delivery === delivery));
    if (found.length === 0)
      console.error(
        `${nameOfEndpoint(endpoint)}: the git host's delivery history of ${client.api.deliveries!.days} days does not have it.`,
      );
  }
  return follow(found.sort(later).reverse(), options);
}

async function showFailed(failed: readonly RecordedAttempt[], what: string, options: HistoryOptions): Promise<void> {
  const shown = failed.slice(0, most);
  if (shown.length < failed.length)
    console.error(`Only the newest ${most} of ${failed.length} failed deliveries are traced.`);
  if (!(options.redeliver && options.json)) await showGroups(shown, what, options);
  if (options.redeliver) await redeliver(shown, options);
}

/** Sends each once, after a ping to each of their webhooks has been delivered. */
async function redeliver(failed: readonly RecordedAttempt[], options: HistoryOptions): Promise<void> {
  if (failed.length === 0) return show([], "There is nothing to deliver again.", options);
  const byWebhook = [...Map.groupBy(failed, ({ webhook }) => webhook).values()];
  const endpoints = byWebhook.map(([first]) => first!.endpoint);
  // Standard output is for JSON.
  const print = options.json ? console.error : console.log;
  if (!(await showPings(endpoints, { ...options, json: false }, print)))
    throw new UserError(
      "nothing was delivered again: the ping did not arrive. Apply the fix above, then run this command again.",
    );
  const where = byWebhook.map((group) => `${countOf(group.length)} of ${nameOfEndpoint(group[0]!.endpoint)}`);
  await confirm(`This has the git host send ${where.join(", ")} again.`, options);
  const again: RecordedAttempt[] = [];
  for (const group of byWebhook) {
    const { client, webhook, endpoint } = group[0]!;
    const wanted = new Set(group.map(({ recorded }) => recorded.delivery));
    const send = async () => {
      for (const { recorded } of [...group].reverse()) await client.redeliver(webhook, recorded);
    };
    const ofWanted = (entries: readonly Recorded[]) => entries.filter(({ delivery }) => wanted.has(delivery));
    const isComplete = (entries: readonly Recorded[]): boolean =>
      new Set(ofWanted(entries).map(({ delivery }) => delivery)).size === wanted.size;
    const entries = await newEntries(client, webhook, send, isComplete);
    again.push(...ofWanted(entries).map((recorded) => ({ client, webhook, endpoint, recorded })));
  }
  await showGroups(again, `${countOf(again.length)} sent again`, options);
}
