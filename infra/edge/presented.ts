/** Which client certificate Cloudflare presents to the hosts. The provider never looks at that (decision 022). */
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { type CloudflareApi, explained } from "./api.ts";

export type Presented = {
  readonly cert_id: string;
  readonly enabled: boolean | null;
  readonly status: string; // of the association: "active", "pending_deployment", "deleted" and others
  readonly cert_status: string; // of the certificate
};

/** By hostname; a hostname without an association is absent. */
export type AllPresented = ReadonlyMap<string, Presented>;

export type ZoneApi = { readonly api: CloudflareApi; readonly id: string };
export const associations = (id: string): string => `zones/${id}/origin_tls_client_auth/hostnames`;

/** Throws RunError. Each run reads it, as a preview that could not look would show no drift. */
export async function readPresented({ api, id }: ZoneApi, hostnames: readonly string[]): Promise<AllPresented> {
  const read = async (hostname: string): Promise<[string, Presented][]> => {
    const found = await api.get<Presented>(`${associations(id)}/${hostname}`).catch((error: unknown) => {
      const what = `the client certificate of ${hostname} cannot be read`;
      throw new pulumi.RunError(explained(what, "SSL and Certificates Read", error));
    });
    return found === undefined ? [] : [[hostname, found]];
  };
  return new Map((await Promise.all(hostnames.map(read))).flat());
}

/** Cloudflare still lists a deleted association or certificate. */
export const isDeleted = (status: string | undefined): boolean => /delet/.test(status ?? "");

/** The difference in words; undefined if Cloudflare presents this certificate, or has no association yet. */
export function presentedDrift(hostname: string, live: Presented | undefined, certId: string): string | undefined {
  if (live === undefined) return undefined;
  const isLost = live.cert_id === certId && isDeleted(live.cert_status);
  const association = isDeleted(live.status) ? live.status : live.enabled === true ? "on" : "off";
  if (live.cert_id === certId && !isLost && association === "on") return undefined;
  const fix = isLost
    ? "Raise pushgate:edge.generation by one, then run npx pulumi up, which makes another."
    : "Run npx pulumi up, which restores it.";
  const state = isLost ? live.cert_status : association;
  return `the client certificate of ${hostname} at Cloudflare is ${live.cert_id}, ${state}; declared is ${certId}, on. ${fix}`;
}

/** Once the provider has written what it knows of. `before`: what Cloudflare presented until then. Throws RunError. */
export async function restorePresented(zone: ZoneApi, hostname: string, before: Presented | undefined, certId: string) {
  if (presentedDrift(hostname, before, certId) === undefined) return;
  const now = (await readPresented(zone, [hostname])).get(hostname);
  if (presentedDrift(hostname, now, certId) === undefined) return;
  const config = [{ hostname, cert_id: certId, enabled: true }];
  await zone.api.put(associations(zone.id), { config }).catch((error: Error) => {
    throw new pulumi.RunError(
      `the client certificate of ${hostname} cannot be restored: ${error.message}. If ${certId} no longer exists at Cloudflare, raise pushgate:edge.generation by one. Then run npx pulumi up.`,
    );
  });
  void pulumi.log.info(`Cloudflare presents client certificate ${certId} for ${hostname} again`);
}

/** Throws RunError after five minutes. Cloudflare's locations change over one after the other. */
export async function untilPresented(zone: ZoneApi, hostname: string, certId: string): Promise<void> {
  const until = Date.now() + 5 * 60_000;
  for (let waiting = false; ; waiting = true) {
    const live = (await readPresented(zone, [hostname])).get(hostname);
    if (live?.cert_id === certId && live.status === "active" && (live.cert_status || "active") === "active") return;
    if (Date.now() > until)
      throw new pulumi.RunError(
        `Cloudflare does not present the new client certificate for ${hostname} yet (${live?.status ?? "no answer"}, ${live?.cert_status || "none"}). Run npx pulumi up again in a few minutes. Until then nginx trusts the former client certificate too.`,
      );
    if (!waiting) void pulumi.log.info(`waiting until Cloudflare presents the new client certificate for ${hostname}`);
    await sleep(2_000);
  }
}
