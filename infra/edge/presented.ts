/**
 * Which client certificate Cloudflare presents to the hosts. The Pulumi provider never looks at that after it wrote it: a
 * refresh restores the configuration from the state, so a manual change shows no difference and `up` writes nothing
 * (docs/decisions/022). The program compares it itself: a preview shows the resource as changed, and `up` writes what the
 * provider would have written. One PUT replaces the association, so no moment is without a certificate.
 */
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { type ApiError, type CloudflareAccess, cloudflareApi } from "./api.ts";
import { cloudflare } from "./provider.ts";

/** What Cloudflare reports of one hostname. */
export type Presented = {
  readonly certId: string;
  readonly enabled: boolean | null;
  /** "active", "pending_deployment", "deleted" and others: of the association, and of the certificate. */
  readonly status: string;
  readonly certStatus: string;
};

/** By hostname; a hostname without an association is absent. */
export type AllPresented = ReadonlyMap<string, Presented>;

/**
 * A rejection that is about the hostname, not about the token or the load: the API's reference names no status for a
 * hostname without an association. The engine creates the association then; the provider itself looks for 404.
 */
const unassociated = /: 4(?!01|03|08|09|29)\d\d /;

/** Throws RunError. Each run reads it, as a preview that could not look would show no drift. */
export async function readPresented(zoneId: string, hostnames: readonly string[]): Promise<AllPresented> {
  const read = async (hostname: string): Promise<[string, Presented][]> => {
    try {
      const { certId, enabled, status, certStatus } = await cloudflare.getAuthenticatedOriginPulls({
        zoneId,
        hostname,
      });
      return [[hostname, { certId, enabled, status, certStatus }]];
    } catch (error) {
      const message = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").trim();
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
  const isDeclared = live.certId === certId;
  const isOff = isDeleted(live.status);
  const isLost = isDeclared && isDeleted(live.certStatus);
  if (live.enabled === true && isDeclared && !isOff && !isLost) return undefined;
  const state = isLost ? live.certStatus : isOff ? live.status : live.enabled === true ? "on" : "off";
  const fix = isLost
    ? "Raise pushgate:edge.generation by one, then run npx pulumi up, which makes another."
    : "Run npx pulumi up, which restores it.";
  return `the client certificate of ${hostname} at Cloudflare is ${live.certId}, ${state}; declared is ${certId}, on. ${fix}`;
}

const association = (zoneId: string, hostname?: string): string =>
  ["zones", zoneId, "origin_tls_client_auth/hostnames", ...(hostname === undefined ? [] : [hostname])].join("/");

const withoutToken = (hostname: string, cannot: string, meanwhile = ""): pulumi.RunError =>
  new pulumi.RunError(
    `cloudflare:apiToken is not in the stack's configuration, so pushgate cannot ${cannot} for ${hostname}. Run ` +
      `npx pulumi config set --secret cloudflare:apiToken, then npx pulumi up.${meanwhile}`,
  );

/**
 * Has Cloudflare present this certificate for the hostname, unless it does. To be called when the provider has written
 * what it knows of, such as a new certificate; `before` is what Cloudflare presented until then. Throws RunError.
 */
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
  if (access === undefined) throw withoutToken(hostname, "restore the client certificate");
  try {
    await cloudflareApi(access).put(association(zoneId), { config: [{ hostname, cert_id: certId, enabled: true }] });
  } catch (error) {
    throw new pulumi.RunError(
      `the client certificate of ${hostname} cannot be restored: ${(error as ApiError).message}. If ${certId} no ` +
        "longer exists at Cloudflare, raise pushgate:edge.generation by one. Then run npx pulumi up.",
    );
  }
  void pulumi.log.info(`Cloudflare presents client certificate ${certId} for ${hostname} again`);
}

const minutes = 5;
const bothTrusted = "Until then nginx trusts the former client certificate too.";

/**
 * Resolves once Cloudflare reports that it presents `certId` for the hostname, and throws RunError after five minutes.
 * Cloudflare's locations change over one after the other: nginx must trust the former CA until then.
 */
export async function untilPresented(
  access: CloudflareAccess | undefined,
  zoneId: string,
  hostname: string,
  certId: string,
  pause = 2_000,
): Promise<void> {
  if (access === undefined)
    throw withoutToken(hostname, "know when Cloudflare presents the new client certificate", ` ${bothTrusted}`);
  type Rollout = { readonly cert_id?: string; readonly status?: string; readonly cert_status?: string };
  const api = cloudflareApi(access);
  const until = Date.now() + minutes * 60_000;
  for (let waiting = false; ; waiting = true) {
    const live = await api.get<Rollout>(association(zoneId, hostname));
    if (live?.cert_id === certId && live.status === "active" && (live.cert_status ?? "active") === "active") return;
    if (Date.now() > until)
      throw new pulumi.RunError(
        `Cloudflare does not present the new client certificate for ${hostname} yet (${live?.status ?? "no answer"}, ` +
          `${live?.cert_status ?? "none"}). Run npx pulumi up again in a few minutes. ${bothTrusted}`,
      );
    if (!waiting) void pulumi.log.info(`waiting until Cloudflare presents the new client certificate for ${hostname}`);
    await sleep(pause);
  }
}
