/** A ping, followed through every layer: sent by the git host with its token, else by the host itself. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Recorded } from "../../../service/git-hosts/api/api.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import type { Options } from "../command.ts";
import { type Endpoint, nameOfEndpoint, wantedOf } from "../endpoints.ts";
import { follow, newEntries } from "../site/follow.ts";
import { UserError } from "../stack.ts";
import { loggedIds, onHosts } from "../trace/hosts.ts";
import { exitOf, traceText } from "../trace/text.ts";
import { pingOnHost } from "./ping-on-host.ts";
import { apiOf, clientOf, ownWebhook, type WebhookClient } from "./webhooks.ts";

type Pinged = Traced & {
  /** What it does not prove, and what the git host sent in place of a ping. */
  readonly notes: readonly string[];
};

/** Seconds until a host's log has what a git host without a delivery history sent. */
const patience = 20;

const sentNote = ({ api }: WebhookClient): string[] =>
  api.ping?.sends === undefined ? [] : [`The git host has no ping: it sent ${api.ping.sends}.`];

/** Throws a UserError where the git host has no webhook for the endpoint, or its delivery history gets no ping. */
async function byHistory(client: WebhookClient, endpoint: Endpoint, options: Options): Promise<Pinged> {
  const webhook = await ownWebhook(client, endpoint);
  const isPing = (one: Recorded): boolean => one.isPing || client.api.ping?.sends !== undefined;
  const send = () => client.ping(webhook, wantedOf(endpoint));
  const entries = await newEntries(client, webhook, send, (found) => found.some(isPing));
  const [followed] = await follow([{ endpoint, client, webhook, recorded: entries.find(isPing)! }], options);
  return { ...followed!, notes: sentNote(client) };
}

/** Where the git host shows no delivery history: the first delivery to the hook that its host logs after the ping. */
async function byLogs(client: WebhookClient, endpoint: Endpoint, options: Options): Promise<Pinged> {
  const { hook, host } = endpoint;
  const here = { ...options, host };
  const webhook = await ownWebhook(client, endpoint);
  const known = new Set(await loggedIds(hook.name, here));
  await client.ping(webhook, wantedOf(endpoint));
  let delivery: string | undefined;
  for (let waited = 0; delivery === undefined && waited < patience; waited++) {
    await sleep(1000);
    delivery = (await loggedIds(hook.name, here)).find((id) => !known.has(id));
  }
  const notes = [...sentNote(client), ...client.api.lacks];
  const about = { hook: hook.name, host, kind: "ping", notes };
  if (delivery === undefined) {
    const seen = { nginx: "none", receiver: "none" } as const;
    return { ...seen, ...verdict(seen), ...about };
  }
  const seen = (await onHosts([delivery], here)).get(delivery)!.at(-1)!;
  const found = `The host's log has no delivery to this hook between the test and this one.`;
  return { ...seen, ...verdict(seen), ...about, delivery, notes: [...notes, found] };
}

/** Why the git host cannot be made to ping. */
function missing({ hook }: Endpoint): string {
  const found = apiOf(hook);
  if (found === undefined) return `${hook.gitHost} has no API for webhooks.`;
  const { api, variable, needs } = found;
  if (api.ping === undefined) return api.lacks.join(" ");
  return `${variable} is not set: the git host sends a ping given ${needs}.`;
}

async function ping(endpoint: Endpoint, options: Options): Promise<Pinged> {
  const client = clientOf(endpoint.hook);
  if (client?.api.ping !== undefined) return (client.hasHistory() ? byHistory : byLogs)(client, endpoint, options);
  const found = await pingOnHost(endpoint, options);
  const notes = [
    missing(endpoint),
    "The host sent this ping to its receiver itself. It proves nothing about DNS, Cloudflare, the firewall and nginx.",
  ];
  return { ...found, notes };
}

/** Pings each endpoint and prints what became of it. Returns whether all arrived, and sets the exit status. */
export async function showPings(
  endpoints: readonly Endpoint[],
  options: Options,
  print = console.log,
): Promise<boolean> {
  const found: Pinged[] = [];
  const faults: string[] = [];
  for (const endpoint of endpoints) {
    const one = await ping(endpoint, options).catch((error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      faults.push(error.message);
    });
    if (one === undefined) continue;
    found.push(one);
    if (options.json) continue;
    print(`${nameOfEndpoint(endpoint)}: ping${one.delivery === undefined ? "" : ` ${one.delivery}`}`);
    print([traceText(one), ...one.notes].join("\n"));
  }
  if (options.json) print(JSON.stringify(found, null, 2));
  if (faults.length > 0) throw new UserError(faults.join("\n"));
  process.exitCode = Math.max(...found.map(exitOf));
  return process.exitCode === 0;
}
