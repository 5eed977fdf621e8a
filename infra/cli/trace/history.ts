/** `npx pushgate trace` over the git host's delivery history: the last failure, the newest entries, recent failures. */

import type { Recorded, Webhook } from "../../../service/git-hosts/webhook-api.ts";
import { printable } from "../../../service/printable.ts";
import { verdict } from "../../trace/verdict.ts";
import { all, confirm, hooksNamed, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { type Followed, follow, newEntries, type RecordedAttempt } from "../site/follow.ts";
import { readStack, UserError } from "../stack.ts";
import { showPings } from "../webhook/ping.ts";
import { apiOf, assertOneOrigin, clientOf, neededClient, ownWebhook, type WebhookClient } from "../webhook/webhooks.ts";
import { exitOf, traceText } from "./text.ts";

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

const isDelivered = ({ status }: Recorded): boolean => status >= 200 && status < 300;

type Source = { readonly endpoint: Endpoint; readonly client: WebhookClient; readonly webhook: Webhook };

/** The webhooks whose delivery history can be read; throws a UserError where there is none. */
async function sourcesOf({ hook, ...options }: HistoryOptions): Promise<Source[]> {
  const endpoints = await endpointsOf(hook, options);
  assertOneOrigin(endpoints.map((endpoint) => endpoint.hook));
  const hooks = new Set(endpoints.map((endpoint) => endpoint.hook));
  const usable = [...hooks].filter((one) => hook !== undefined || clientOf(one)?.hasHistory());
  if (usable.length === 0) throw new UserError(noHistory([...hooks]));
  const clients = new Map(usable.map((one) => [one, neededClient(one, "read the git host's delivery history")]));
  for (const client of clients.values())
    if (!client.hasHistory())
      throw new UserError(
        `${client.lacks()} Trace one by the id that its page shows: npx pushgate trace --delivery <id>`,
      );
  const found = endpoints.flatMap((endpoint) => {
    const client = clients.get(endpoint.hook);
    const source = client && ownWebhook(client, endpoint).then((webhook): Source => ({ endpoint, client, webhook }));
    // Of all hooks, those without a webhook are named and left out.
    return source === undefined ? [] : [hook === undefined ? source.catch(leftOut) : source];
  });
  const sources = (await all<Source | undefined>(found)).filter((source) => source !== undefined);
  if (sources.length === 0) throw new UserError("there is no git host's delivery history to read.");
  return sources;
}

function leftOut(error: unknown): undefined {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
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

/** The newest attempt at each delivery, pings left out. */
function newestOf(entries: readonly RecordedAttempt[]): RecordedAttempt[] {
  const pushes = entries.filter(({ recorded }) => !recorded.isPing);
  return [...Map.groupBy(pushes, ({ webhook, recorded }) => `${webhook.id} ${recorded.delivery}`).values()].map(
    (attempts) => attempts[0]!,
  );
}

/** Those of which the newest attempt failed. */
const failedOf = (entries: readonly RecordedAttempt[]): RecordedAttempt[] =>
  newestOf(entries)
    .filter(({ recorded }) => !isDelivered(recorded))
    .sort(later);

/** The newest first; those without a time at the end, in the history's order. */
const later = (a: RecordedAttempt, b: RecordedAttempt): number =>
  (b.recorded.time ?? "").localeCompare(a.recorded.time ?? "");

/** Of each webhook the newest first. */
async function entriesOf(sources: readonly Source[], enough: (one: Recorded, count: number) => boolean) {
  const lists = await all(
    sources.map(async (source) =>
      (await source.client.recorded(source.webhook, enough)).map((recorded) => ({ ...source, recorded })),
    ),
  );
  return lists.flat();
}

const countOf = (count: number): string => (count === 1 ? "one delivery" : `${count} deliveries`);

/** Prints what the history holds, as the options say, and sets the exit status. */
export async function traceHistory(options: HistoryOptions): Promise<void> {
  const sources = await sourcesOf(options);
  const days = Math.min(...sources.map(({ client }) => client.api.deliveries!.days));
  const { last, redeliver } = options;
  const since = options.since ?? (last === undefined && redeliver ? days * day : undefined);
  if (since !== undefined && since > days * day)
    console.error(`The git host keeps ${days} days: what failed before is not in its delivery history.`);
  if (since !== undefined) {
    const from = new Date(Date.now() - since).toISOString();
    const isOld = ({ time }: Recorded): boolean => time !== undefined && time < from;
    const found = (await entriesOf(sources, isOld)).filter(({ recorded }) => !isOld(recorded));
    const failed = failedOf(found);
    const of = `${countOf(failed.length)} failed of ${newestOf(found).length}`;
    return showFailed(failed, `${of} in ${since < day ? "that time" : `${Math.round(since / day)} days`}`, options);
  }
  if (last !== undefined) {
    const found = (await entriesOf(sources, (_, count) => count >= last)).sort(later).slice(0, last);
    if (redeliver) return showFailed(failedOf(found), `failed of the last ${countOf(found.length)}`, options);
    return showGroups(await follow(found, options), `the last ${countOf(found.length)}`, options);
  }
  const found = await entriesOf(sources, (one) => !one.isPing && !isDelivered(one));
  const [failed] = found.filter(({ recorded }) => !recorded.isPing && !isDelivered(recorded)).sort(later);
  if (failed === undefined) return showNone(found, days, options);
  // Follows the later attempts, too, so that their log lines are not taken for those of the failed attempt.
  const attempts = found.filter(
    ({ webhook, recorded }) => webhook === failed.webhook && recorded.delivery === failed.recorded.delivery,
  );
  const one = (await follow(attempts, options))[attempts.indexOf(failed)]!;
  if (options.json) console.log(JSON.stringify([one], null, 2));
  else console.log(`${lineOf(one)}\n${traceText(one, one)}`);
  process.exitCode = exitOf(one);
}

/** Of a history without a failed delivery; a history without any push is a verdict of its own. */
function showNone(found: readonly RecordedAttempt[], days: number, { json }: Options): void {
  const none = verdict({ history: "none" });
  const [never] = found.some(({ recorded }) => !recorded.isPing) ? [] : none.outcomes;
  if (json) return void console.log(JSON.stringify(never === undefined ? [] : [none], null, 2));
  console.log(`No delivery has failed in the ${days} days that the git host keeps.`);
  if (never !== undefined) console.log(`${never.what}.\n  fix, if you pushed: ${never.fix}`);
}

/** The id of a delivery in the history of any webhook whose token is given: all attempts, or none. */
export async function recordedAs(delivery: string, { hook, ...options }: HistoryOptions): Promise<Followed[]> {
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
    const entries = await client.recorded(webhook, () => false);
    for (const recorded of entries)
      if (recorded.delivery === delivery) found.push({ endpoint, client, webhook, recorded });
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
  const quiet = options.redeliver === true && options.json === true;
  if (!quiet) showGroups(await follow(shown, options), what, options);
  if (options.redeliver) await redeliver(shown, options);
}

/** Sends each once, after a ping to each of their webhooks has been delivered. */
async function redeliver(failed: readonly RecordedAttempt[], options: HistoryOptions): Promise<void> {
  if (failed.length === 0) {
    if (options.json) console.log("[]");
    else console.log("There is nothing to deliver again.");
    process.exitCode = 0;
    return;
  }
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
    const isAgain = ({ delivery }: Recorded): boolean => wanted.has(delivery);
    const entries = await newEntries(
      client,
      webhook,
      send,
      (found) => new Set(found.filter(isAgain).map(({ delivery }) => delivery)).size === wanted.size,
    );
    again.push(...entries.filter(isAgain).map((recorded) => ({ client, webhook, endpoint, recorded })));
  }
  showGroups(await follow(again, options), `${countOf(again.length)} sent again`, options);
}

const statusText = ({ answer }: Followed): string => (answer?.status ? String(answer.status) : "no answer");
const lineOf = (one: Followed): string =>
  [one.time ?? "unknown time", `${one.hook} on ${one.host}`, one.kind, one.delivery, statusText(one)].join("  ");

/** The layer that rejected them, or "delivered". */
function layerOf({ certainty, outcomes }: Followed): string {
  if (certainty === "unknown") return "unknown";
  return outcomes[0]!.layer === "delivered" ? "delivered" : `rejected by ${outcomes[0]!.layer}`;
}

/** Deliveries with the same verdict together, and sets the exit status. */
function showGroups(found: readonly Followed[], what: string, { json }: Options): void {
  process.exitCode = Math.max(0, ...found.map(exitOf));
  if (json) return void console.log(JSON.stringify(found, null, 2));
  console.log(`${what}${found.length === 0 ? "" : ":"}`);
  const groups = Map.groupBy(found, (one) => `${one.certainty} ${one.outcomes.map(({ name }) => name)}`);
  for (const group of groups.values()) {
    const { certainty, outcomes } = group[0]!;
    const reasons = outcomes.flatMap(({ what, fix }) => [
      `  ${certainty}: ${what}.`,
      ...(fix === undefined ? [] : [`    fix: ${fix}`]),
    ]);
    const none = outcomes.length === 0 ? ["  no outcome that pushgate knows fits what was seen"] : [];
    const lines = group.map((one) => `  ${printable(lineOf(one))}`);
    console.log([`\n${layerOf(group[0]!)}: ${countOf(group.length)}`, ...none, ...reasons, ...lines].join("\n"));
  }
}
