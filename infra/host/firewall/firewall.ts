/**
 * Layer 5: only Cloudflare's ranges reach the origin port; no other port is touched. In a table of its own: an accept
 * in it opens nothing that ufw, Docker or fail2ban drop, and loading it leaves their tables as they are. nft 1.0.6 has
 * no `destroy`: firewall.nft declares the table, and so can delete it.
 */
import type { Host, Settings } from "../../config/settings.ts";
import { networks, v4, v6 } from "../../networks.ts";
import * as kit from "../kit.ts";
import { paths, units } from "../paths.ts";

/** Prints "as declared" or the lines in which a live table differs; without arguments, of this layer's table. */
export const driftText = kit.textBeside(import.meta.url, "drift.sh");

const elements = (cidrs: readonly string[]): string => cidrs.map((cidr) => `      ${cidr},`).join("\n");

export const firewallRules = (settings: Settings, { originPort }: Host): string =>
  kit.template(import.meta.url, "firewall.nft", {
    unit: units.firewall,
    edge4: elements(v4(networks.cloudflare.cidrs)),
    edge6: elements(v6(networks.cloudflare.cidrs)),
    originPort,
    receiverPorts: kit.portsOf(settings),
  });

export const firewallLayer = (settings: Settings, host: Host) =>
  kit.oneshotLayer(import.meta.url, "firewall", {
    values: { unit: units.firewall, needs: paths.nftables },
    files: [
      kit.file(paths.nftables, firewallRules(settings, host), { check: 'nft --check --file "$1"' }),
      // The guard runs it, too.
      kit.program(`${paths.lib}/firewall-drift`, driftText, { fixed: true }),
      kit.unitFile(import.meta.url, units.firewall, { rules: paths.nftables, sandbox: kit.oneshotSandbox() }),
    ],
    facts: [
      { name: "table inet pushgate", read: driftText, want: "as declared" },
      kit.enabledAndActive(units.firewall),
    ],
  });
