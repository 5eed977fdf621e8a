/** Which client certificate Cloudflare presents to the hosts. The provider never looks at that (decision 022). */
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { type CloudflareAccess, cloudflareApi, oneLine } from "./api.ts";
import { cloudflare } from "./provider.ts";

export type Presented = {
  readonly certId: string;
  readonly enabled: boolean | null;
  readonly status: string; // of the association: "active", "pending_deployment", "deleted" and others
  readonly certStatus: string; // of the certificate
};

/** By hostname; a hostname without an association is absent. */
export type AllPresented = ReadonlyMap<string, Presented>;

/** A rejection about the hostname, not about token or load: the API's reference names no status for "no association". */
const unassociated = /: 4(?!01|03|08|09|29)\d\d /;

/** Throws RunError. Each run reads it, as a preview that could not look would show no drift. */
export async function readPresented(zoneId: string, hostnames: readonly string[]): Promise<AllPresented> {
  const read = async (hostname: string): Promise<[string, Presented][]> => {
    try {
      return [[hostname, await cloudflare.getAuthenticatedOriginPulls({ zoneId, hostname })]];
    } catch (error) {
      const message = oneLine(error);
      if (unassociated.test(message)) return [];
      throw new pulumi.RunError(
        `the client certificate of ${hostname} cannot be read: ${message}. Check that cloudflare:apiToken has the ` +
          "permission SSL and Certificates Read.",
      );
    }
  };
  return new Map((await Promise.all(hostnames.map(read))).flat());
}

/** Cloudflare still lists a deleted association or certificate. */
const isDeleted = (status: string | undefined): boolean => /delet/.test(status ?? "");

/** The difference in words; undefined if Cloudflare presents this certificate, or has no association yet. */
export function presentedDrift(hostname: string, live: Presented | undefined, certId: string): string | undefined {
  if (live === undefined) return undefined;
  const isLost = live.certId === certId && isDeleted(live.certStatus);
  const association = isDeleted(live.status) ? live.status : live.enabled === true ? "on" : "off";
  if (live.certId === certId && !isLost && association === "on") return undefined;
  const fix = isLost
    ? "Raise pushgate:edge.generation by one, then run npx pulumi up, which makes another."
    : "Run npx pulumi up, which restores it.";
  const state = isLost ? live.certStatus : association;
  return `the client certificate of ${hostname} at Cloudflare is ${live.certId}, ${state}; declared is ${certId}, on. ${fix}`;
}

/** Once the provider has written what it knows of. `before`: what Cloudflare presented until then. Throws RunError. */
export async function restorePresented(
  access: CloudflareAccess | undefined,
  zoneId: string,
  hostname: string,
  before: Presented | undefined,
  certId: string,
): Promise<void> {
  if (presentedDrift(hostname, before, certId) === undefined) return;
  const now = (await readPresented(zoneId, [hostname])).get(hostname);
  if (presentedDrift(hostname, now, certId) === undefined) return;
  if (access === undefined)
    throw new pulumi.RunError(
      `cloudflare:apiToken is not in the stack's configuration, so pushgate cannot restore the client certificate for ` +
        `${hostname}. Run npx pulumi config set --secret cloudflare:apiToken, then npx pulumi up.`,
    );
  const config = [{ hostname, cert_id: certId, enabled: true }];
  await cloudflareApi(access)
    .put(`zones/${zoneId}/origin_tls_client_auth/hostnames`, { config })
    .catch((error: Error) => {
      throw new pulumi.RunError(
        `the client certificate of ${hostname} cannot be restored: ${error.message}. If ${certId} no longer exists at ` +
          "Cloudflare, raise pushgate:edge.generation by one. Then run npx pulumi up.",
      );
    });
  void pulumi.log.info(`Cloudflare presents client certificate ${certId} for ${hostname} again`);
}

/** Throws RunError after five minutes. Cloudflare's locations change over one after the other. */
export async function untilPresented(zoneId: string, hostname: string, certId: string, pause = 2_000): Promise<void> {
  const until = Date.now() + 5 * 60_000;
  for (let waiting = false; ; waiting = true) {
    const live = (await readPresented(zoneId, [hostname])).get(hostname);
    if (live?.certId === certId && live.status === "active" && (live.certStatus || "active") === "active") return;
    if (Date.now() > until)
      throw new pulumi.RunError(
        `Cloudflare does not present the new client certificate for ${hostname} yet (${live?.status ?? "no answer"}, ` +
          `${live?.certStatus || "none"}). Run npx pulumi up again in a few minutes. Until then nginx trusts the former ` +
          "client certificate too.",
      );
    if (!waiting) void pulumi.log.info(`waiting until Cloudflare presents the new client certificate for ${hostname}`);
    await sleep(pause);
  }
}
