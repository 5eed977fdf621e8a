/** A ping, followed through every layer: sent by the git host with its token, else by the host itself. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Recorded } from "../../../service/git-hosts/api/api.ts";
import type { Evidence } from "../../trace/evidence.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { orUserError, UserError } from "../../user-error.ts";
import type { Options } from "../command.ts";
import { type Endpoint, nameOfEndpoint, wantedOf } from "../endpoints.ts";
import { follow, newEntries } from "../trace/follow.ts";
import { loggedIds, onHosts } from "../trace/hosts.ts";
import { exitOf, traceText } from "../trace/text.ts";
import { pingOnHost } from "./ping-on-host.ts";
import { clientOf, type Source, sourceOf, whyNot } from "./webhooks.ts";

/** `notes`: what it does not prove, and what the git host sent in place of a ping. */
type Pinged = Traced & { readonly notes: readonly string[] };

async function byHistory(source: Source, options: Options): Promise<Traced> {
  const { client, endpoint, webhook } = source;
  const isPing = (one: Recorded): boolean => one.isPing || client.api.ping?.sends !== undefined;
  const send = () => client.ping(webhook, wantedOf(endpoint));
  const entries = await newEntries(source, send, (found) => found.some(isPing));
  const [followed] = await follow([{ ...source, recorded: entries.find(isPing)! }], options);
  return followed!;
}

/** Where the git host shows no delivery history: the first delivery to the hook that its host logs after the ping. */
async function byLogs({ client, endpoint, webhook }: Source, options: Options): Promise<Traced> {
  const { hook, host } = endpoint;
  const here = { ...options, host };
  const known = new Set(await loggedIds(hook.name, here));
  await client.ping(webhook, wantedOf(endpoint));
  let delivery: string | undefined;
  for (let waited = 0; delivery === undefined && waited < 20; waited++) {
    await sleep(1000);
    delivery = (await loggedIds(hook.name, here)).find((id) => !known.has(id));
  }
  const seen: Evidence =
    delivery === undefined
      ? { nginx: "none", receiver: "none" }
      : { ...(await onHosts([delivery], here)).get(delivery)!.at(-1)!, delivery };
  return { ...seen, ...verdict(seen), hook: hook.name, host, kind: "ping" };
}

async function ping(endpoint: Endpoint, options: Options): Promise<Pinged> {
  const client = clientOf(endpoint.hook);
  if (client?.api.ping === undefined) {
    const notes = [
      whyNot(endpoint.hook, "ping"),
      "The host sent this ping to its receiver itself. It proves nothing about DNS, Cloudflare, the firewall and nginx.",
    ];
    return { ...(await pingOnHost(endpoint, options)), notes };
  }
  const { ping, deliveries, lacks } = client.api;
  const sent = ping.sends === undefined ? [] : [`The git host has no ping: it sent ${ping.sends}.`];
  const source = await sourceOf(client, endpoint);
  if (deliveries !== undefined) return { ...(await byHistory(source, options)), notes: sent };
  return { ...(await byLogs(source, options)), notes: [...sent, ...lacks] };
}

/** Pings each endpoint and prints what became of it. Returns whether all arrived, and sets the exit status. */
export async function showPings(endpoints: readonly Endpoint[], options: Options): Promise<boolean> {
  const found: Pinged[] = [];
  const faults: string[] = [];
  for (const endpoint of endpoints) {
    const one = await orUserError(ping(endpoint, options));
    if (one instanceof UserError) faults.push(one.message);
    else found.push(one);
    if (one instanceof UserError || options.json) continue;
    console.log(`${nameOfEndpoint(endpoint)}: ping${one.delivery === undefined ? "" : ` ${one.delivery}`}`);
    console.log([traceText(one), ...one.notes].join("\n"));
  }
  if (options.json) console.log(JSON.stringify(found, null, 2));
  if (faults.length > 0) throw new UserError(faults.join("\n"));
  process.exitCode = Math.max(...found.map(exitOf));
  return process.exitCode === 0;
}
