/**
 * Both directions of trust between edge and machine: the Origin CA's certificate tells the edge that it talks to this
 * machine, our own client certificate tells the machine that it talks to this zone. The edge's ranges alone do not:
 * every customer's worker arrives from them.
 */
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { originKey } from "../contract.ts";

/** 15 years, the longest there is. */
const validityDays = 5475;
/** Deliveries stop on the day a certificate expires, so warn a quarter ahead. */
const warnDays = 90;

/** Whole days from `now`, negative once expired; NaN for a date nobody can read. Takes RFC 3339 and Go's format. */
export function daysLeft(expiresOn: string, now: Date): number {
  const [, day, time, zone = "Z"] =
    /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?/.exec(expiresOn) ?? [];
  if (day === undefined) return Number.NaN;
  const offset = zone === "Z" ? "Z" : zone.replace(/(\d\d):?(\d\d)$/, "$1:$2");
  return Math.floor((Date.parse(`${day}T${time}${offset}`) - now.getTime()) / 86_400_000);
}

/** What expires, and how it is renewed. */
type Expiring = { readonly what: string; readonly cure: string };

/** What to tell a person, or undefined. Never throws: an exception where it is used would end the program. */
export function expiryWarning({ what, cure }: Expiring, expiresOn: string | undefined, now: Date): string | undefined {
  if (expiresOn === undefined) return undefined;
  const days = daysLeft(expiresOn, now);
  if (days > warnDays) return undefined;
  const when = Number.isNaN(days) ? `on ${expiresOn}` : days < 0 ? `${-days} days ago` : `in ${days} days`;
  return `${what} expires ${when}, and every delivery fails from then on: ${cure}`;
}

function warnBeforeExpiry(
  expiring: Expiring,
  resource: pulumi.CustomResource & { expiresOn: pulumi.Output<string> },
): void {
  resource.expiresOn.apply((expiresOn: string | undefined) => {
    const warning = expiryWarning(expiring, expiresOn, new Date());
    if (warning !== undefined) void pulumi.log.warn(warning, resource);
  });
}

/** `csr` was made on the machine, where the key stays. */
export type OriginCertificate = {
  /** The machine's own, which names the resource. */
  readonly hostname: string;
  /** All it is to be for. */
  readonly hostnames: readonly string[];
  readonly csr: pulumi.Input<string>;
};

/**
 * Other hostnames make another certificate. The engine creates that first, the machine takes it up, and the former is
 * revoked at the end of the `up`; what the request names besides the key, the edge does not read.
 */
export function originCertificate(
  { hostname, hostnames, csr }: OriginCertificate,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.OriginCaCertificate {
  const certificate = new cloudflare.OriginCaCertificate(
    `${hostname} origin certificate`,
    // In the API's own order: with another, each refresh would replace it (cloudflare/terraform-provider-cloudflare#5392).
    { csr, hostnames: [...hostnames].sort(), requestType: "origin-ecc", requestedValidity: validityDays },
    // The API does not give the validity back, and any difference in it would replace the certificate.
    { ...opts, ignoreChanges: [...(opts.ignoreChanges ?? []), "requestedValidity"] },
  );
  warnBeforeExpiry(
    {
      what: `the origin certificate of ${hostname}`,
      cure: `remove ${originKey} on the machine and run pulumi up, which makes a new key and a certificate for it`,
    },
    certificate,
  );
  return certificate;
}

/** The leaf the edge presents. A leaf, as a root is refused; the machine trusts the CA that issued it. */
export type PullCertificate = {
  readonly zoneId: pulumi.Input<string>;
  readonly hostnames: readonly string[];
  readonly certificate: pulumi.Input<string>;
  readonly privateKey: pulumi.Input<string>;
};

/**
 * By hostname only. The zone's `tls_client_auth` stays as it is: "Global, zone-level, and per-hostname AOP are
 * independent configurations. Enabling or disabling one does not affect the others"
 * (developers.cloudflare.com/ssl/origin-configuration/authenticated-origin-pull/set-up/global). The global one would
 * also present a certificate that all accounts share, which proves nothing.
 */
export function originPulls(
  { zoneId, hostnames, certificate, privateKey }: PullCertificate,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.AuthenticatedOriginPulls[] {
  if (hostnames.length === 0) return [];
  const leaf = new cloudflare.AuthenticatedOriginPullsHostnameCertificate(
    "origin pull certificate",
    { zoneId, certificate, privateKey: pulumi.secret(privateKey) },
    opts,
  );
  warnBeforeExpiry(
    {
      what: "the certificate the edge presents to the origin",
      cure: "raise pushgate:edge.generation by one and run pulumi up",
    },
    leaf,
  );
  return hostnames.map(
    (hostname) =>
      new cloudflare.AuthenticatedOriginPulls(
        `${hostname} origin pulls`,
        // The provider takes one hostname a resource.
        { zoneId, configs: [{ hostname, certId: leaf.id, enabled: true }] },
        opts,
      ),
  );
}
