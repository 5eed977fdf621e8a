/** `npx pushgate trace` over the git host's delivery history: the last failure, the newest entries, recent failures. */
import type { Recorded } from "../../../service/git-hosts/api/api.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { UserError } from "../../user-error.ts";
import { all, confirm, ended, hooksNamed, type Options, ofStack } from "../command.ts";
import { endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { readStack } from "../stack.ts";
import { showPings } from "../webhook/ping.ts";
import { assertOneOrigin, clientOf, type Source, sourceOf, whyNot } from "../webhook/webhooks.ts";
import { follow, keyOf, newEntries, type RecordedAttempt } from "./follow.ts";
import { countOf, exitOf, groupsText, lineOf, traceText } from "./text.ts";

export type HistoryOptions = Options & { hook?: string; last?: number; since?: number; redeliver?: true };

/** Deliveries whose answers are fetched and which are looked for on the hosts in one call. */
const most = 200;
const day = 24 * 3_600_000;

async function sourcesOf({ hook, ...options }: HistoryOptions): Promise<Source[]> {
  const { endpoints } = await endpointsOf(hook, options);
  assertOneOrigin(endpoints.map((endpoint) => endpoint.hook));
  const readable = endpoints.flatMap((endpoint) => {
    const client = clientOf(endpoint.hook);
    return client?.api.deliveries === undefined ? [] : [sourceOf(client, endpoint)];
  });
  const reasons = new Set(endpoints.map((endpoint) => whyNot(endpoint.hook, "deliveries")));
  if (readable.length === 0)
    throw new UserError(`there is no git host's delivery history to read. ${[...reasons].join("\n")}`);
  const { values, faults } = await ended(readable);
  if (values.length === 0) throw new UserError(faults.join("\n"));
  for (const fault of faults) console.error(fault);
  return values;
}

async function entriesOf(sources: readonly Source[], enough: (one: Recorded, count: number) => boolean) {
  const entries = sources.map(async (source) =>
    (await source.client.recorded(source.webhook, enough)).map((recorded) => ({ ...source, recorded })),
  );
  return (await all(entries)).flat();
}

/** The newest first; those without a time at the end, in the history's order. */
const later = (a: RecordedAttempt, b: RecordedAttempt): number =>
  (b.recorded.time ?? "").localeCompare(a.recorded.time ?? "");

const hasFailed = ({ isPing, status }: Recorded): boolean => !isPing && (status < 200 || status >= 300);

function show(found: readonly Traced[], text: string, { json }: Options): void {
  console.log(json ? JSON.stringify(found, null, 2) : text);
  process.exitCode = Math.max(0, ...found.map(exitOf));
}

async function showGroups(entries: readonly RecordedAttempt[], what: string, options: Options): Promise<void> {
  const found = await follow(entries, options);
  show(found, groupsText(found, what), options);
}

const daysOf = (sources: readonly Source[]) => Math.min(...sources.map(({ client }) => client.api.deliveries!.days));

export async function traceHistory(options: HistoryOptions): Promise<void> {
  const sources = await sourcesOf(options);
  const days = daysOf(sources);
  const { last, redeliver, since = redeliver && days * day } = options;
  if (since !== undefined) return showFailed(sources, since, days, options);
  if (last === undefined) {
    const { failed, found, text } = await lastFailed(options, sources);
    if (failed) return show(found, text, options);
    return console.log(options.json ? JSON.stringify(found, null, 2) : text);
  }
  const found = (await entriesOf(sources, (_, count) => count >= last)).sort(later).slice(0, last);
  return showGroups(found, `the last ${countOf(found.length)}`, options);
}

/** The last failed delivery and its text; a history without any push is a verdict of its own. */
export async function lastFailed(options: HistoryOptions, given?: readonly Source[]) {
  const sources = given ?? (await sourcesOf(options));
  const entries = await entriesOf(sources, hasFailed);
  const [failed] = entries.filter(({ recorded }) => hasFailed(recorded)).sort(later);
  if (failed === undefined) {
    const found = entries.some(({ recorded }) => !recorded.isPing) ? [] : [verdict({ history: "none" })];
    const none = `No delivery has failed in the ${daysOf(sources)} days that the git host keeps.`;
    const fixes = found.flatMap(({ outcomes }) =>
      outcomes.map(({ what, fix }) => `${what}.\n  fix, if you pushed: ${fix}`),
    );
    return { failed, found, text: [none, ...fixes].join("\n") };
  }
  // Follows the later attempts, too, so that their log lines are not taken for those of the failed attempt.
  const attempts = entries.filter((one) => keyOf(one) === keyOf(failed));
  const one = (await follow(attempts, options))[attempts.indexOf(failed)]!;
  return { failed, found: [one], text: `${lineOf(one)}\n${traceText(one)}` };
}

async function showFailed(sources: readonly Source[], since: number, days: number, options: HistoryOptions) {
  if (since > days * day)
    console.error(`The git host keeps ${days} days: what failed before is not in its delivery history.`);
  const from = new Date(Date.now() - since).toISOString();
  const isOld = ({ time }: Recorded): boolean => time !== undefined && time < from;
  const pushes = (await entriesOf(sources, isOld)).filter(({ recorded }) => !recorded.isPing && !isOld(recorded));
  const newest = [...Map.groupBy(pushes, keyOf).values()].map((attempts) => attempts[0]!);
  const failed = newest.filter(({ recorded }) => hasFailed(recorded)).sort(later);
  const shown = failed.slice(0, most);
  if (shown.length < failed.length)
    console.error(`Only the newest ${most} of ${failed.length} failed deliveries are traced.`);
  const within = since < day ? "that time" : `${Math.round(since / day)} days`;
  await showGroups(shown, `${countOf(failed.length)} failed of ${newest.length} in ${within}`, options);
  if (options.redeliver) await redeliver(shown, options);
}

async function redeliver(failed: readonly RecordedAttempt[], options: HistoryOptions): Promise<void> {
  if (failed.length === 0) return show([], "There is nothing to deliver again.", options);
  const byWebhook = [...Map.groupBy(failed, ({ webhook }) => webhook).values()];
  const pinged = byWebhook.map(([first]) => first!.endpoint);
  if (!(await showPings(pinged, options)))
    throw new UserError("nothing was delivered again: the ping did not arrive. Apply the fix above first.");
  const where = byWebhook.map((group) => `${countOf(group.length)} of ${nameOfEndpoint(group[0]!.endpoint)}`);
  await confirm(`This has the git host send ${where.join(", ")} again.`, options);
  const again: RecordedAttempt[] = [];
  for (const group of byWebhook) {
    const { client, webhook } = group[0]!;
    const wanted = group.map(({ recorded }) => recorded.delivery);
    const send = async () => {
      for (const { recorded } of [...group].reverse()) await client.redeliver(webhook, recorded);
    };
    const has = (found: readonly Recorded[]) => wanted.every((id) => found.some(({ delivery }) => delivery === id));
    const sent = (await newEntries(group[0]!, send, has)).filter(({ delivery }) => wanted.includes(delivery));
    again.push(...sent.map((recorded) => ({ ...group[0]!, recorded })));
  }
  await showGroups(again, `${countOf(again.length)} sent again`, options);
}

/** All attempts at a delivery in the histories whose tokens are given, the newest last; none without a token. */
export async function recordedAs(delivery: string, options: HistoryOptions): Promise<Traced[]> {
  const { hooks } = await readStack(ofStack(options));
  if (!hooksNamed(hooks, options.hook).some((hook) => clientOf(hook)?.api.deliveries)) return [];
  const entries = await entriesOf(await sourcesOf(options), () => false);
  const found = entries.filter(({ recorded }) => recorded.delivery === delivery);
  if (found.length === 0) console.error("The git host's delivery history does not have it.");
  return follow(found.sort(later).reverse(), options);
}
