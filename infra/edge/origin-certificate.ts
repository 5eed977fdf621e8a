/** The origin certificate, which nginx presents to Cloudflare: Cloudflare issues it for a key that stays on the host. */
import type * as pulumi from "@pulumi/pulumi";
import { originKey } from "../contract.ts";
import { warnBeforeExpiry } from "./expiry.ts";
import { cloudflare } from "./provider.ts";

type Wanted = { readonly hostname: string; readonly hostnames: readonly string[]; readonly csr: pulumi.Input<string> };

/** Other hostnames replace the certificate: the new one is created and installed before the former is revoked. */
export function originCertificate({ hostname, hostnames, csr }: Wanted, opts: pulumi.CustomResourceOptions = {}) {
  const certificate = new cloudflare.OriginCaCertificate(
    `${hostname} origin certificate`,
    // Hostnames in the API's own order: with another, each refresh would replace the certificate
    // (cloudflare/terraform-provider-cloudflare#5392). 5475 days are the longest there is.
    { csr, hostnames: [...hostnames].sort(), requestType: "origin-ecc", requestedValidity: 5475 },
    // The API does not return the validity, and any difference in it would replace the certificate.
    { ...opts, ignoreChanges: opts.ignoreChanges ?? ["requestedValidity"] },
  );
  const renewal = `Remove ${originKey} on the host and run npx pulumi up, which makes a new key and certificate.`;
  warnBeforeExpiry(certificate, `the origin certificate of ${hostname}`, renewal);
  return certificate;
}
