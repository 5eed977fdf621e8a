/** Compares the ranges that Cloudflare and the hooks' git hosts publish with those that the hosts admit. */
import * as pulumi from "@pulumi/pulumi";
import { differences, ownersOf, readPublished } from "../config/published.ts";
import { cloudflare } from "./provider.ts";

/** Seconds: the run ends later if a git host does not answer. */
const patience = 5;

/**
 * Warns of each difference. The provider reads Cloudflare's: for that the engine starts it at once, beside the probe of the
 * hosts. At the first resource of Cloudflare, after the probe, each preview would wait a second for it.
 */
export async function compareRanges(hooks: Parameters<typeof ownersOf>[0]): Promise<void> {
  const warn = (texts: Record<string, string>) => Object.values(texts).forEach((text) => void pulumi.log.warn(text));
  for (const owner of ownersOf(hooks))
    readPublished(owner, patience).then(
      (published) => warn(differences(owner, published)),
      ({ message }: Error) => warn({ message }),
    );
  try {
    const { ipv4Cidrs = [], ipv6Cidrs = [] } = await cloudflare.getIpRanges();
    warn(differences("cloudflare", [...ipv4Cidrs, ...ipv6Cidrs]));
  } catch {} // the provider reports it as an error of the stack
}
