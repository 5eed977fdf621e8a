/**
 * Whether a request gets from outside through every layer to the proxy. Each layer's own facts are looked at where it
 * stands; what lies between them belongs to nobody and is seen from here alone: a hosting provider's firewall before
 * the machine, somebody's Worker or Access application on the name, DNS that leads elsewhere.
 */
import { get } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { type Host, type Settings, vendorUrl } from "../config/settings.ts";
import { canaryPath, servedByProxy } from "../contract.ts";
import type { EdgeAccess } from "./api.ts";

export type CanaryAnswer = {
  /** 0: nobody answered, and `error` is the code of the reason, such as ENOTFOUND. */
  readonly status: number;
  readonly error?: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
};

/** Seconds. The edge itself gives an origin that says nothing 19 s until it answers 522. */
const patience = 25;
/** Seconds until `up` believes a no: a record or rule of this moment takes its time to each of the edge's places. */
const settling = 30;

/** One question on a connection of its own. Never throws. */
function ask(hostname: string): Promise<CanaryAnswer> {
  return new Promise((resolve) => {
    const headers = { "user-agent": "pushgate", accept: "*/*" };
    const asked = get({ hostname, path: canaryPath, headers, agent: false, timeout: patience * 1000 }, (answer) => {
      answer.resume();
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers });
    });
    asked.on("timeout", () => asked.destroy(Object.assign(new Error(), { code: "ETIMEDOUT" })));
    asked.on("error", ({ code = "no code" }: NodeJS.ErrnoException) =>
      resolve({ status: 0, error: code, headers: {} }),
    );
  });
}

type Found = (where: string) => string;
/** What the edge's own answers mean where a rule of ours let the request through; `where` is the machine's port. */
const meanings: readonly (readonly [statuses: readonly number[], says: Found])[] = [
  [
    [521, 522],
    (where) =>
      `the edge gets no connection to ${where}: a firewall before the machine or on it drops it, the hosting provider's ` +
      "or ufw. Let https://www.cloudflare.com/ips in on that port there",
  ],
  [[523, 530], (where) => `the edge finds no way to ${where}: an address that is not the machine's, or not routed`],
  [[525, 526], (where) => `what answers the edge at ${where} has no certificate of ours: another machine, or a proxy`],
  [[520, 524], (where) => `something at ${where} takes the edge's connection and gives no answer`],
  [
    [403],
    () =>
      "the edge blocks it: a rule of the zone or the account before ours, an IP access rule, or bot management set to " +
      "block, which no delivery meets. Security Events has it under that ray",
  ],
  [[429], () => "the edge limits it: a rate limiting rule covers the name"],
];

/** What keeps a request from a machine, with the cure; undefined where nothing does, or it can't be told from here. */
export function obstacle(
  { address, address6, originPort }: Pick<Host, "address" | "address6" | "originPort">,
  { status, error = "", headers }: CanaryAnswer,
): string | undefined {
  if (/^(ENOTFOUND|EAI_AGAIN)$/.test(error))
    return "the name is not found from here; a resolver may believe for half an hour that a new name does not exist";
  if (/CERT|ALTNAME|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_SSL/.test(error))
    return (
      `no valid certificate is shown for the name (${error}): the edge's own covers one level below the zone, and a new ` +
      "zone's takes a while, see SSL/TLS, Edge Certificates; or something else than the edge answers"
    );
  if (status === 0) return `nobody answers (${error}): either this machine does not reach the web, or not the edge`;
  // A delivery skips what challenges a program without a signature, and gets in all the same.
  if (headers["cf-mitigated"] !== undefined) return undefined;
  const by = headers["x-served-by"];
  if (status === 204 && by === servedByProxy) return undefined;
  const said = [`${status}`, ...(by ? [`by ${by}`] : []), ...(headers["cf-ray"] ? [`ray ${headers["cf-ray"]}`] : [])];
  const [, meaning] = meanings.find(([statuses]) => statuses.includes(status)) ?? [];
  if (by !== undefined)
    return `the machine itself refuses it (${said.join(", ")}): pulumi up, and read what it says of it`;
  const where = `${[address, address6].filter((one) => one !== undefined).join(" and ")}, port ${originPort}`;
  const instead = "something else answers: a Worker's route, an Access application or a redirect rule covers the name";
  return `${meaning?.(where) ?? instead} (${said.join(", ")})`;
}

/** An edge that is stood in for has no name that leads to it; `false` is for a machine that may not reach the web. */
export const isAsked = ({ canary }: Pick<Settings["edge"], "canary">, access: EdgeAccess | undefined): boolean =>
  canary ?? access?.baseUrl === vendorUrl;

/**
 * Asks for the canary of each machine that is to be there, and warns of what keeps it from it. In `up` when everything
 * stands, for half a minute until it gets through; in a preview once, about the machines as they are. Never fails: what
 * is in the way is nothing that a run could take back.
 */
export function canary(
  { hosts, edge }: Pick<Settings, "hosts" | "edge">,
  access: EdgeAccess | undefined,
  names: readonly pulumi.CustomResource[],
): void {
  if (!isAsked(edge, access)) return;
  // Not called in a preview that is to create one of them: nothing leads there yet.
  pulumi.all(names.map(({ id }) => id)).apply(async () => {
    const done = pulumi.runtime.rpcKeepAlive();
    await Promise.all(hosts.filter(({ state }) => state === "present").map(comesThrough));
    done();
  });
}

async function comesThrough(host: Host): Promise<void> {
  const dry = pulumi.runtime.isDryRun();
  const until = Date.now() + (dry ? 0 : settling * 1000);
  for (let told = false; ; told = true) {
    const found = obstacle(host, await ask(host.hostname));
    if (found === undefined) return;
    if (Date.now() >= until)
      return pulumi.log.warn(`${host.name}: https://${host.hostname}${canaryPath} does not get through: ${found}`);
    if (!told) void pulumi.log.info(`waiting until a request to ${host.hostname} gets through to ${host.name}`);
    await sleep(2_000);
  }
}
