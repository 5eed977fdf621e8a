/**
 * Layer 5: only Cloudflare's ranges reach the origin port; no other port is touched. pushgate has its own table: an
 * accept in it opens nothing that ufw, Docker or fail2ban drop, and loading it leaves their tables as they are.
 *
 * nft 1.0.6 has no `destroy`: the rules declare the table first, which makes the delete valid, and nft loads one file
 * as one transaction.
 */
import type { HostLayer } from "../../apply/layer.ts";
import { sourceSets } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { networks, v4, v6 } from "../../networks.ts";
import { enabledAndActive, file, oneshotLayer, program, template, textBeside, unitFile } from "../kit.ts";
import { paths, units } from "../paths.ts";
import { oneshotSandbox } from "../sandbox.ts";

/** Prints "as declared" or the lines in which a live table differs; without arguments, of this layer's table. */
export const driftText = textBeside(import.meta.url, "drift.sh");

const elements = (cidrs: readonly string[]): string => cidrs.map((cidr) => `      ${cidr},`).join("\n");

export const firewallRules = (settings: Settings, { originPort }: Host): string =>
  template(import.meta.url, "firewall.nft", {
    unit: units.firewall,
    edge4: elements(v4(networks.cloudflare.cidrs)),
    edge6: elements(v6(networks.cloudflare.cidrs)),
    originPort,
    receiverPorts: sourceSets(settings)
      .map(({ port }) => port)
      .join(", "),
  });

export function firewallLayer(settings: Settings, host: Host): HostLayer {
  const files = [
    file(paths.nftables, firewallRules(settings, host), { check: 'nft --check --file "$1"' }),
    // The guard runs it, too.
    program(`${paths.lib}/firewall-drift`, driftText),
    unitFile(import.meta.url, units.firewall, { rules: paths.nftables, sandbox: oneshotSandbox() }),
  ];
  return oneshotLayer(import.meta.url, "firewall", {
    values: { unit: units.firewall, needs: paths.nftables },
    files,
    facts: [{ name: "table inet pushgate", read: driftText, want: "as declared" }, enabledAndActive(units.firewall)],
  });
}
