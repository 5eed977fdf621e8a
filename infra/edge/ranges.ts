/** Compares the ranges that Cloudflare and the hooks' git hosts publish with those that the hosts admit. */
import * as pulumi from "@pulumi/pulumi";
import { compared, type Owner, ownerNames, ownersOf, readPublished } from "../config/published.ts";
import { driftMessage } from "../contract.ts";
import { networks } from "../networks.ts";
import { cloudflare } from "./provider.ts";

/** Seconds: the run ends later if a git host does not answer. */
const patience = 5;

/**
 * Warns of each difference. The provider reads Cloudflare's: for that the engine starts it at once, beside the probe of the
 * hosts. At the first resource of Cloudflare, after the probe, each preview would wait a second for it.
 */
export async function compareRanges(hooks: Parameters<typeof ownersOf>[0]): Promise<void> {
  for (const owner of ownersOf(hooks))
    readPublished(owner, patience).then(
      (published) => warn(owner, published),
      ({ message }: Error) => void pulumi.log.warn(message),
    );
  try {
    const { ipv4Cidrs = [], ipv6Cidrs = [] } = await cloudflare.getIpRanges();
    warn("cloudflare", [...ipv4Cidrs, ...ipv6Cidrs]);
  } catch {} // the provider reports it as an error of the stack
}

/** A range that the hosts admit in vain rejects no delivery, and is no drift to an audit. */
function warn(owner: Owner, published: readonly string[]): void {
  const { missing, gone } = compared(owner, published);
  const name = ownerNames[owner];
  const next = `(${networks[owner].source}). Run npx pushgate networks, then npx pulumi up.`;
  if (missing.length > 0)
    void pulumi.log.warn(`${name} sends from ${missing.join(", ")}, too, which the hosts do not admit ${next}`);
  if (gone.length > 0)
    void pulumi.log.warn(`the hosts admit ${gone.join(", ")}, which ${name} no longer names ${next}`);
  for (const item of missing) {
    const drift = { item, kind: "undeclared", before: name, after: null };
    void pulumi.log.debug(driftMessage({ host: null, layer: "published ranges", ...drift }));
  }
}
