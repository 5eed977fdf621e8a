/**
 * Only the edge's ranges reach the origin port; no other port is touched. A table of our own: an accept in it opens
 * nothing that ufw, Docker or fail2ban drop, and loading it leaves their tables as they are.
 */
import { readFileSync } from "node:fs";
import type { HostLayer } from "../../apply/layer.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { sourceSets } from "../../config/source-sets.ts";
import { networks, v4, v6 } from "../../networks.ts";
import { paths, units } from "../paths.ts";
import { placing } from "../sandbox.ts";
import { forgetMissing } from "../unit-links.ts";

/** Compares a table with what was declared; without arguments, this layer's own. */
export const driftText = readFileSync(new URL("drift.sh", import.meta.url), "utf8");

/** Prints "as declared" or what differs; the guard runs it too. */
export const firewallDrift = `${paths.lib}/firewall-drift` as const;

const elements = (cidrs: readonly string[]): string => cidrs.map((cidr) => `      ${cidr},\n`).join("");

/** nft 1.0.6 knows no `destroy`: declaring the table first makes the delete valid, and one file is one transaction. */
export function firewallRules(settings: Settings, host: Host): string {
  const { cidrs } = networks.cloudflare;
  const ports = sourceSets(settings).map(({ port }) => port);
  return `# Only the edge reaches the origin port. Loaded as one transaction by ${units.firewall}.
table inet pushgate
delete table inet pushgate

table inet pushgate {
  set edge4 {
    type ipv4_addr
    flags interval
    auto-merge
    elements = {
${elements(v4(cidrs))}    }
  }

  set edge6 {
    type ipv6_addr
    flags interval
    auto-merge
    elements = {
${elements(v6(cidrs))}    }
  }

  counter edge_ok { }
  counter not_edge { }
  counter not_local { }

  chain input {
    # Before everybody's filter chains at priority 0: edge_ok counts what arrived, so where it grows and the proxy's log
    # stays empty, another table on this machine drops it. Policy accept: what is not ours is not judged here.
    type filter hook input priority filter - 10; policy accept;

    # The machine may look at its own proxy; without the edge's client certificate it is answered 400.
    iif "lo" tcp dport ${host.originPort} accept
    tcp dport ${host.originPort} ip saddr @edge4 counter name edge_ok accept
    tcp dport ${host.originPort} ip6 saddr @edge6 counter name edge_ok accept
    tcp dport ${host.originPort} limit rate 10/minute burst 5 packets log prefix "pushgate not-edge: " level info
    tcp dport ${host.originPort} counter name not_edge drop

    # The receiver's sockets are bound to loopback; route_localnet or a DNAT must not change who reaches them.
    iif != "lo" tcp dport { ${ports.join(", ")} } counter name not_local drop
  }
}
`;
}

const unitText = `[Unit]
Description=pushgate: only the edge reaches the origin port
# As Debian's nftables.service: before any interface is up. After it, because it begins with \`flush ruleset\`; its
# restart, reload and start each load our table again.
DefaultDependencies=no
RequiresMountsFor=${paths.etc}
After=nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service
Wants=network-pre.target
Before=network-pre.target sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
# No ExecStop: a stopped unit leaves the port guarded.
RemainAfterExit=yes
ExecStart=/usr/sbin/nft --file ${paths.nftables}
ExecReload=/usr/sbin/nft --file ${paths.nftables}
${placing()}

[Install]
WantedBy=sysinit.target nftables.service
`;

export function firewall(settings: Settings, host: Host): HostLayer {
  const unit = `${paths.units}/${units.firewall}` as const;
  return {
    name: "firewall",
    files: [
      {
        path: paths.nftables,
        text: firewallRules(settings, host),
        mode: "0644",
        owner: "root:root",
        check: 'nft --check --file "$1"',
      },
      { path: firewallDrift, text: driftText, mode: "0755", owner: "root:root", check: 'sh -n "$1"' },
      { path: unit, text: unitText, mode: "0644", owner: "root:root" },
    ],
    owns: [paths.nftables, firewallDrift, unit],
    // A restart is one nft transaction: there is no moment without the rules.
    activate: `set -e
systemctl daemon-reload
systemctl enable --quiet ${units.firewall}
systemctl restart ${units.firewall}`,
    restore: `${forgetMissing(units.firewall)}
if [ -f ${paths.nftables} ]; then systemctl restart ${units.firewall}; else
  nft delete table inet pushgate 2>/dev/null || :
fi`,
    facts: [
      { name: "table inet pushgate", read: driftText, want: "as declared" },
      {
        name: `${units.firewall} at boot`,
        read: `systemctl is-enabled ${units.firewall} 2>/dev/null`,
        want: "enabled",
      },
      { name: units.firewall, read: `systemctl is-active ${units.firewall}`, want: "active" },
    ],
    retire: `systemctl disable --now --quiet ${units.firewall} 2>/dev/null
nft delete table inet pushgate 2>/dev/null
:`,
    present: true,
    timeout: 60,
  };
}
