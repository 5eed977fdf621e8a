/**
 * Layer 5: only Cloudflare's ranges reach the origin port; no other port is touched. In a table of its own: an accept
 * in it opens nothing that ufw, Docker or fail2ban drop, and loading it leaves their tables as they are. nft 1.0.6 has
 * no `destroy`: firewall.nft declares the table, and so can delete it.
 */
import type { HostFile } from "../../apply/layer.ts";
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

/** The unit that loads a table of pushgate's own: `load` is its command, and `folders` has what that reads. */
export const tableUnit = (name: string, description: string, folders: readonly string[], load: string): HostFile =>
  kit.unitFile(
    import.meta.url,
    name,
    { description, folders, load, sandbox: kit.oneshotSandbox() },
    "pushgate-table.service",
  );

export const firewallLayer = (settings: Settings, host: Host) =>
  kit.oneshotLayer(import.meta.url, "firewall", {
    values: { unit: units.firewall, needs: paths.nftables },
    files: [
      kit.file(paths.nftables, firewallRules(settings, host), { check: 'nft --check --file "$1"' }),
      // The guard runs it, too.
      kit.program(`${paths.lib}/firewall-drift`, driftText, { fixed: true }),
      tableUnit(
        units.firewall,
        "only Cloudflare reaches the origin port",
        [paths.etc],
        `/usr/sbin/nft --file ${paths.nftables}`,
      ),
    ],
    facts: [
      { name: "table inet pushgate", read: driftText, want: "as declared" },
      kit.enabledAndActive(units.firewall),
    ],
  });
