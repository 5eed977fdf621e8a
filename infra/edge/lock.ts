/**
 * `pulumi destroy` works from the last resource to the first and stops at one that is protected. A ruleset with rules
 * of the zone's owner's is (docs/decisions/004), but it stands behind the DNS records: those would be gone, and with
 * them every delivery, by the time destroy is refused. This one stands before them and is nothing else.
 */
import * as pulumi from "@pulumi/pulumi";
import type { LiveZone } from "./inspect.ts";
import { phaseNames } from "./phase.ts";

class Lock extends pulumi.ComponentResource {
  constructor(name: string, opts: pulumi.ComponentResourceOptions) {
    super("pushgate:edge:Lock", name, {}, opts);
  }
}

/**
 * `records`: what must not go before it. Declared whether it locks or not, as one that is protected could not leave by
 * itself when the zone's last own rule does.
 */
export function lock({ phases }: LiveZone, records: readonly pulumi.Resource[]): pulumi.Resource {
  const theirs = phaseNames.some((name) => phases[name].foreign.length > 0);
  // With the records gone there is nothing left to lose, and what is protected behind them says so itself.
  const protect = theirs && records.length > 0;
  return new Lock("rules of the zone's own", { dependsOn: [...records], protect });
}
