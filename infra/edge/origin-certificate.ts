/**
 * The origin certificate, which nginx presents to Cloudflare: issued by Cloudflare's Origin CA for a key that stays on
 * the host.
 */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import { originKey } from "../contract.ts";
import { warnBeforeExpiry } from "./expiry.ts";

/** 15 years, the longest there is. */
const validityDays = 5475;

export type OriginCertificate = {
  /** The host's own, which names the resource. */
  readonly hostname: string;
  /** All hostnames that the certificate covers. */
  readonly hostnames: readonly string[];
  /** Made on the host, where the key stays. Cloudflare reads nothing of it but the key. */
  readonly csr: pulumi.Input<string>;
};

/** Other hostnames replace the certificate: the new one is created and installed before the former is revoked. */
export function originCertificate(
  { hostname, hostnames, csr }: OriginCertificate,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.OriginCaCertificate {
  const certificate = new cloudflare.OriginCaCertificate(
    `${hostname} origin certificate`,
    // In the API's own order: with another, each refresh would replace it (cloudflare/terraform-provider-cloudflare#5392).
    { csr, hostnames: [...hostnames].sort(), requestType: "origin-ecc", requestedValidity: validityDays },
    // The API does not return the validity, and any difference in it would replace the certificate.
    { ...opts, ignoreChanges: [...(opts.ignoreChanges ?? []), "requestedValidity"] },
  );
  const renewal = `remove ${originKey} on the machine and run pulumi up, which makes a new key and a certificate for it`;
  warnBeforeExpiry(certificate, `the origin certificate of ${hostname}`, renewal);
  return certificate;
}
