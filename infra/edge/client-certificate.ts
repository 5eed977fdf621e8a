/**
 * The client certificate that Cloudflare presents to nginx. It proves that a connection comes through this zone, which
 * Cloudflare's address ranges do not: the Workers of every other customer connect from them too.
 *
 * - client-certificate.sh makes a CA and a certificate on the operator's computer, valid for ten years. nginx trusts the
 *   CA (host/client-ca). Cloudflare gets the certificate, as it rejects a root.
 * - The CA's key is deleted at once, so a new certificate comes with a new CA, which nginx trusts before Cloudflare
 *   presents the certificate.
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { type CloudflareAccess, cloudflareApi } from "./api.ts";
import { warnBeforeExpiry } from "./expiry.ts";

/** PEM. nginx trusts `ca`, which is public; Cloudflare presents `certificate` and holds its `key`. */
export type ClientCertificate = { readonly ca: string; readonly certificate: string; readonly key: string };

/** POSIX sh. The generation is part of the text, as only a changed text runs the script again. */
export const clientCertificateScript = (zone: string, generation: number): string =>
  readFileSync(new URL("client-certificate.sh", import.meta.url), "utf8")
    .replace(/^[\s\S]*?(?=# generation)/, "")
    .replace("@generation@", String(generation))
    .replaceAll("@zone@", zone);

/** What the script printed. An error must not quote it: it holds a private key. */
export const readClientCertificate = (printed: pulumi.Output<string>): pulumi.Output<ClientCertificate> =>
  printed.apply((text) => {
    try {
      return JSON.parse(text) as ClientCertificate;
    } catch {
      // Empty in the preview before the first `up`, and under mocks.
      return { ca: "", certificate: "", key: "" };
    }
  });

/**
 * Uploads the certificate and has Cloudflare present it for each hostname. The zone's own such setting is independent of
 * it (developers.cloudflare.com/ssl/origin-configuration/authenticated-origin-pull/set-up/global) and stays as it is.
 */
export function presentClientCertificate(
  zoneId: pulumi.Input<string>,
  hostnames: readonly string[],
  { certificate, key }: { readonly certificate: pulumi.Input<string>; readonly key: pulumi.Input<string> },
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.AuthenticatedOriginPulls[] {
  if (hostnames.length === 0) return [];
  const uploaded = new cloudflare.AuthenticatedOriginPullsHostnameCertificate(
    "client certificate",
    { zoneId, certificate, privateKey: pulumi.secret(key) },
    // The alias is the name in stacks of an earlier version; so is the one below.
    { ...opts, aliases: [{ name: "origin pull certificate", parent: pulumi.rootStackResource }] },
  );
  const renewal = "Raise pushgate:edge.generation by one and run npx pulumi up.";
  warnBeforeExpiry(uploaded, "the client certificate that Cloudflare presents", renewal);
  return hostnames.map((hostname) => {
    // The provider takes one hostname a resource.
    const configs = [{ hostname, certId: uploaded.id, enabled: true }];
    const aliases = [{ name: `${hostname} origin pulls`, parent: pulumi.rootStackResource }];
    const name = `${hostname} client certificate`;
    return new cloudflare.AuthenticatedOriginPulls(name, { zoneId, configs }, { ...opts, aliases });
  });
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
    throw new pulumi.RunError(
      `cloudflare:apiToken is not in the stack's configuration, so pushgate cannot know when Cloudflare presents the new ` +
        `client certificate for ${hostname}. Run npx pulumi config set --secret cloudflare:apiToken, then npx pulumi up. ` +
        bothTrusted,
    );
  type Rollout = { readonly cert_id?: string; readonly status?: string; readonly cert_status?: string };
  const path = `zones/${zoneId}/origin_tls_client_auth/hostnames/${hostname}`;
  const api = cloudflareApi(access);
  const until = Date.now() + minutes * 60_000;
  for (let waiting = false; ; waiting = true) {
    const live = await api.get<Rollout>(path);
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
