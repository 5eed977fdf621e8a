/** A request from outside through Cloudflare to nginx: it alone finds what lies between two layers (decision 015). */
import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { DnsRecord } from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { exchange } from "../../service/exchange.ts";
import { printable } from "../../service/printable.ts";
import type { Host, Settings } from "../config/settings.ts";
import { canaryPath, servedByProxy, vendorUrl } from "../contract.ts";
import { verdict } from "../trace/verdict.ts";

/** The status is 0 without an answer; `error` is then the code of the reason, such as ENOTFOUND. */
export type CanaryAnswer = { readonly status: number; readonly error?: string; readonly headers: IncomingHttpHeaders };

/** Seconds until a request fails. Cloudflare waits 19 s for an origin that does not answer, and then answers 522. */
const patience = 25;
/** Seconds that `up` waits for a success: a new record or rule takes time to reach each of Cloudflare's locations. */
const settling = 30;

const request = (hostname: string): Promise<CanaryAnswer> =>
  exchange({ url: `https://${hostname}${canaryPath}`, headers: { accept: "*/*" } }, { seconds: patience }).catch(
    ({ code = "no code" }: NodeJS.ErrnoException) => ({ status: 0, error: code, headers: {} }),
  );

/** What keeps this computer's request from Cloudflare, by the error's code; the first that fits. */
const failures: Readonly<Record<string, RegExp>> = {
  "DNS does not resolve the hostname here. Wait if it is new: a resolver may keep its answer for half an hour.":
    /^(ENOTFOUND|EAI_AGAIN)$/,
  "the hostname shows no valid certificate. See SSL/TLS, Edge Certificates: Cloudflare's own covers one level below the zone, and a new zone's takes a while.":
    /CERT|ALTNAME|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_SSL/,
  "there is no answer. Check that this computer reaches the web, and Cloudflare.": /^/,
};

/** What an answer of Cloudflare's own may mean, from the rows that `npx pushgate trace` concludes from. */
function meaning(status: number, origin: string): string {
  const { outcomes } = verdict({ answer: { status, headers: {} }, nginx: "none", receiver: "none" }, origin);
  const [first] = outcomes;
  if (first === undefined) return "pushgate knows no reason for this answer. Look the ray up at Cloudflare.";
  if (outcomes.length === 1) return `${first.what}. ${first.fix ?? ""}`;
  const names = outcomes.map(({ name }) => name).join(", ");
  return `one of these rejects the request: ${names}. Look the ray up at Cloudflare, Security > Events. A signed delivery skips some.`;
}

/** What keeps a request from the host, and what to do; undefined if nothing does, or it cannot be known from here. */
export function obstacle(
  { address, address6, originPort }: Pick<Host, "address" | "address6" | "originPort">,
  { status, error = "", headers }: CanaryAnswer,
): string | undefined {
  const { "x-served-by": server, "cf-ray": ray, "cf-mitigated": challenged } = headers;
  // Cloudflare may challenge this request, which has no signature. A signed delivery skips the challenge.
  if (challenged !== undefined || (status === 204 && server === servedByProxy)) return undefined;
  const seen = [status || error, ...(server ? [`by ${server}`] : []), ...(ray ? [`ray ${ray}`] : [])].join(", ");
  if (server !== undefined)
    return `${seen}: the host itself rejects the request. Run npx pulumi up, and read what it reports about the host.`;
  if (status === 0) return `${seen}: ${Object.entries(failures).find(([, code]) => code.test(error))![0]}`;
  const addresses = address6 === undefined ? address : `${address} and ${address6}`;
  return `${seen}: ${meaning(status, `${addresses}, port ${originPort}`)}`;
}

export function canary({ hosts, edge }: Settings, baseUrl: string, records: DnsRecord[]): void {
  if (!(edge.canary ?? baseUrl === vendorUrl)) return;
  // In a preview that is to create a record this is not called: nothing leads to the host yet.
  pulumi.all(records.map(({ id }) => id)).apply(async () => {
    const done = pulumi.runtime.rpcKeepAlive();
    await Promise.all(hosts.filter(({ state }) => state === "present").map(warnOfObstacle));
    done();
  });
}

async function warnOfObstacle(host: Host): Promise<void> {
  const until = Date.now() + (pulumi.runtime.isDryRun() ? 0 : settling * 1000);
  for (let waiting = false; ; waiting = true) {
    const found = obstacle(host, await request(host.hostname));
    if (found === undefined) return;
    if (Date.now() >= until)
      return pulumi.log.warn(
        printable(`${host.name}: https://${host.hostname}${canaryPath} does not get through. ${found}`),
      );
    if (!waiting) void pulumi.log.info(`waiting until a request to ${host.hostname} gets through to ${host.name}`);
    await sleep(2_000);
  }
}
