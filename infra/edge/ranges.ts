/** Compares the ranges that Cloudflare publishes with those that the hosts' firewalls admit. */
import * as pulumi from "@pulumi/pulumi";
import { networks } from "../networks.ts";
import { cloudflare } from "./provider.ts";

const { source, cidrs: admitted } = networks.cloudflare;

/** What preview warns of, a text for each difference. */
export function rangeWarnings(published: readonly string[]): string[] {
  const missing = published.filter((cidr) => !admitted.includes(cidr));
  const gone = admitted.filter((cidr) => !published.includes(cidr));
  return [
    ...(missing.length === 0
      ? []
      : [`Cloudflare connects from ${missing.join(", ")}, too, which the hosts' firewalls do not admit`]),
    ...(gone.length === 0 ? [] : [`the hosts' firewalls admit ${gone.join(", ")}, which Cloudflare no longer names`]),
  ].map((text) => `${text} (${source}). Update pushgate, or change infra/networks.ts, then run npx pulumi up.`);
}

/**
 * The provider reads them: for that the engine starts it at once, beside the probe of the hosts. At the first resource of
 * Cloudflare, after the probe, each preview would wait a second for it.
 */
export async function compareRanges(): Promise<void> {
  try {
    const { ipv4Cidrs = [], ipv6Cidrs = [] } = await cloudflare.getIpRanges();
    for (const text of rangeWarnings([...ipv4Cidrs, ...ipv6Cidrs])) void pulumi.log.warn(text);
  } catch {} // the provider reports it as an error of the stack
}
