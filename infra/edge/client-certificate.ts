/** What Cloudflare presents to nginx: it proves a connection of this zone, which addresses do not (decision 007). */
import { readFileSync } from "node:fs";
import * as pulumi from "@pulumi/pulumi";
import { tried } from "../../service/tried.ts";
import { driftMessage, issuerOf } from "../contract.ts";
import { warnBeforeExpiry } from "./expiry.ts";
import { type AllPresented, presentedDrift, restorePresented, type ZoneApi } from "./presented.ts";
import { cloudflare } from "./provider.ts";

/** PEM. nginx trusts `ca`, which is public; Cloudflare presents `certificate` and holds its `key`. */
export type ClientCertificate = { readonly ca: string; readonly certificate: string; readonly key: string };

/** POSIX sh. The generation is part of the text, as only a changed text runs the script again. */
export const clientCertificateScript = (zone: string, generation: number): string =>
  readFileSync(new URL("client-certificate.sh", import.meta.url), "utf8")
    .replace(/^[\s\S]*?(?=# generation)/, "")
    .replace("@generation@", String(generation))
    .replaceAll("@issuer@", issuerOf(zone));

/** What the script printed. An error must not quote it: it holds a private key. */
export const readClientCertificate = (printed: pulumi.Output<string>): pulumi.Output<ClientCertificate> =>
  // Empty in the preview before the first `up`, and under mocks.
  printed.apply((text): ClientCertificate => tried(() => JSON.parse(text)) ?? { ca: "", certificate: "", key: "" });

/** Has Cloudflare present the certificate for each hostname. `live`: what it presented when the run began. */
export function presentClientCertificate(
  zone: ZoneApi,
  live: AllPresented,
  hostnames: readonly string[],
  { certificate, key }: { readonly certificate: pulumi.Input<string>; readonly key: pulumi.Input<string> },
  opts: pulumi.CustomResourceOptions = {},
) {
  if (hostnames.length === 0) return [];
  const zoneId = zone.id;
  const pair = { zoneId, certificate, privateKey: pulumi.secret(key) };
  const uploaded = new cloudflare.AuthenticatedOriginPullsHostnameCertificate("client certificate", pair, opts);
  const renewal = "Raise pushgate:edge.generation by one and run npx pulumi up.";
  warnBeforeExpiry(uploaded, "the client certificate that Cloudflare presents", renewal);
  const isPreview = pulumi.runtime.isDryRun();
  return hostnames.map((hostname) => {
    const before = live.get(hostname);
    const name = `${hostname} client certificate`;
    const certId = uploaded.id.apply((id) => {
      const drift = isPreview ? presentedDrift(hostname, before, id) : undefined;
      if (drift === undefined) return id;
      void pulumi.log.warn(drift);
      const after = { cert_id: id, enabled: true };
      const item = { item: "configs", kind: "property", before: before ?? null, after };
      void pulumi.log.debug(driftMessage({ host: null, layer: name, ...item }));
      // State and declaration are equal for the provider. Only an unknown value makes its preview show an update.
      return pulumi.unknown as string;
    });
    // The provider takes one hostname a resource.
    const configs = [{ hostname, certId, enabled: true }];
    const resource = new cloudflare.AuthenticatedOriginPulls(name, { zoneId, configs }, opts);
    const presented = resource.configs.apply(async ([config]) => {
      const id = config?.certId ?? "";
      if (!isPreview) await restorePresented(zone, hostname, before, id);
      return id;
    });
    return { hostname, resource, certId: isPreview ? uploaded.id : presented };
  });
}
