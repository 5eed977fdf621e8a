/** Which layer rejected a delivery: from the hosts' logs, Cloudflare's security events, and what the git host shows. */
import { InvalidArgumentError, Option } from "commander";
import type { Answer, Evidence } from "../../trace/evidence.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, type Options, ofStack, valued } from "../command.ts";
import { endpointsOf } from "../endpoints.ts";
import { deliveryId } from "../site/logs.ts";
import { accessOf } from "../stack.ts";
import { showPings } from "../webhook/ping.ts";
import { atCloudflare } from "./cloudflare.ts";
import { type HistoryOptions, recordedAs, traceHistory } from "./history.ts";
import { joined, onHosts } from "./hosts.ts";
import { exitOf, traceText } from "./text.ts";

type Typed = { delivery?: string; status?: number; header: Answer["headers"] };

const status = valued(/^(0|[1-5]\d\d)$/, "Use the status that the git host shows, or 0 for none.", Number);
const header = (text: string, former: Answer["headers"]): Answer["headers"] => {
  const [, name, value] = /^([\w-]+):\s*(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError("Write it as 'name: value'.");
  return { ...former, [name.toLowerCase()]: value };
};
const units: Readonly<Record<string, number>> = { d: 24 * 3_600_000, h: 3_600_000, m: 60_000 };
const milliseconds = (text: string): number => Number.parseInt(text, 10) * units[text.at(-1)!]!;
const age = valued(/^[1-9]\d{0,3}[dhm]$/, "Write it as 3d, 12h or 30m.", milliseconds);
const count = valued(/^([1-9]\d?|1\d\d|200)$/, "Use a number from 1 to 200.", Number);
const several = ["last", "since", "redeliver"];
const option = (flags: string, text: string, conflicts: string[]) => new Option(flags, text).conflicts(conflicts);

export const trace = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["trace --delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958", "by the id that the git host shows"],
    ["trace --status 403 --header 'cf-ray: 8f0c2d1e3a4b5c6d-FRA'", "by what the git host shows: Cloudflare's events"],
    ["trace --ping --hook site", "has the git host, or else the host itself, send a ping"],
    ["trace --hook site", "the last failed delivery of the git host's delivery history"],
    ["trace --hook site --last 40", "the last 40"],
    ["trace --since 3d --redeliver", "the failed ones of three days, and delivers each again"],
  ],
})
  .addOption(option("--delivery <id>", "look for this id in the hosts' logs", several).argParser(deliveryId))
  .addOption(option("--status <number>", "the status that the git host shows; 0 for none", several).argParser(status))
  .option(
    "--header <line>",
    "a header of the answer, as 'name: value'; 'x-served-by:' if the answer lacks that one; may be repeated",
    header,
    {},
  )
  .option("--hook <name>", "this hook only: its delivery history at the git host, which needs the git host's token")
  .addOption(option("--last <number>", "the last deliveries of the history", several.slice(1)).argParser(count))
  .option("--since <time>", "the failed deliveries since then, such as 3d, 12h or 30m", age)
  .addOption(option("--redeliver", "have the git host send the failed ones again, once a ping has arrived", ["json"]))
  .option("--ping", "send a ping and follow it")
  .action(async ({ ping, ...options }: HistoryOptions & Typed & { ping?: true }) => {
    const { delivery, status, header, hook, last, since, redeliver } = options;
    if (ping) return void (await showPings((await endpointsOf(hook, options)).endpoints, options));
    if (status === undefined && Object.keys(header).length > 0)
      trace.error("error: --header belongs to an answer. Add --status.");
    if (status === undefined && delivery === undefined) {
      if ((last ?? since ?? redeliver ?? hook) !== undefined) return traceHistory(options);
      trace.error("error: there is nothing to trace. Add --delivery or --status, or --hook, --since or --ping.");
    }
    const recorded = delivery === undefined || status !== undefined ? [] : await inHistory(delivery, options);
    const found = recorded.length > 0 ? recorded : await byHand(options);
    if (options.json) console.log(JSON.stringify(found, null, 2));
    else for (const one of found) console.log(traceText(one));
    // A delivery to several hosts has one id: of each, the newest attempt counts.
    const newest = new Map(found.map((one) => [one.host, one]));
    process.exitCode = Math.max(...[...newest.values()].map(exitOf));
  });

async function inHistory(delivery: string, options: HistoryOptions): Promise<Traced[]> {
  const found = await orUserError(recordedAs(delivery, options));
  if (!(found instanceof UserError)) return found;
  console.error(`The git host's delivery history is left out: ${found.message}`);
  return [];
}

async function byHand({ delivery, status, header: headers, ...options }: Options & Typed): Promise<Traced[]> {
  const logged: readonly Evidence[] =
    delivery === undefined ? [{}] : joined((await onHosts([delivery], options)).get(delivery)!);
  const answer = status === undefined ? undefined : { status, headers, partial: true as const };
  const [looked] = await atCloudflare([answer], () => accessOf(ofStack(options)));
  const seen = logged.map((one): Evidence => ({ ...one, ...(answer && { answer }), ...looked }));
  // Of several attempts, the answer is that of those whose lines it does not contradict.
  const fitting = seen.filter(({ cloudflare: _, ...one }) => verdict(one).outcomes.length > 0);
  const traced = answer === undefined ? seen : fitting.length > 0 ? fitting : [{ answer, ...looked }];
  return traced.map((one) => ({ ...one, ...verdict(one) }));
}
