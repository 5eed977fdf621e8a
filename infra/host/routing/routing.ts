/**
 * Replies of the receiver's sockets stay on this machine. The proxy connects to them from the visitor's own address, so
 * their replies are addressed to the visitor; without this layer they leave by the default route and every delivery
 * ends in a 504. One rule and one route a family, all in a table of our own.
 */

import type { HostFact, HostLayer } from "../../apply/layer.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { loopback, stranger } from "../../networks.ts";
import { paths, units } from "../paths.ts";
import { placing } from "../sandbox.ts";
import { forgetMissing } from "../unit-links.ts";

/**
 * What the sockets' `Mark=` is. In the low byte, under a mask of just that byte: kube-proxy, Calico, Cilium and
 * Tailscale keep flags of theirs in bits 8 and up and may OR them into our packets; wg-quick's mark ends in 6c.
 */
export const mark = 0xe7;
export const markMask = 0xff;

/**
 * Before Tailscale's rules at 5210, which would send our replies into a tunnel, and with room for those who add theirs
 * without a pref: the kernel gives them one less than the lowest, and wg-quick's pair must still count down.
 */
const pref = 90;

/** The routing table; ids up to 255 are other people's, this one is next to the sockets' ports. */
export const routingTable = 9460;

const hex = (value: number): string => `0x${value.toString(16)}`;
const script = `${paths.lib}/routing` as const;

/**
 * `from` and `iif lo` (for a rule: made by this machine) narrow it to what our sockets answer, so that somebody else's
 * mark with the same low byte is not caught.
 */
const selector = (source: string): string => `from ${source} fwmark ${hex(mark)}/${hex(markMask)} iif lo`;

const families = [
  { flag: "-4", source: loopback.v4, visitor: stranger.v4, name: "IPv4" },
  { flag: "-6", source: loopback.v6, visitor: stranger.v6, name: "IPv6" },
] as const;

/** How `ip route get` says that a packet stays here, by our table. */
const stay = `dev lo table ${routingTable}`;

/** True where the machine itself has ::1; with disable_ipv6 there is nothing to route. */
const hasIpv6 = "grep -q '^0\\{31\\}1 ' /proc/net/if_inet6 2>/dev/null";

/**
 * `protocol kernel` is what makes networkd leave our rule and route alone: it removes foreign ones when it starts.
 * The setting for that, ManageForeignRoutingPolicyRules=no, would change what networkd does with everybody's rules.
 */
const scriptText = `#!/bin/sh
# Asserts the rule and the route that keep the receiver's replies on this machine; idempotent, and
# nothing is ever missing for a moment.
set -u
export LC_ALL=C

# The rules that lead into our table, and all others but \`local\`, as "pref: text".
listed() { ip "-$1" -N rule show | tr -s '\\t ' ' ' | sed 's/ *$//; /^0:/d'; }
ours() { listed "$1" | grep 'lookup ${routingTable}$'; }
stays() { ip "-$1" route get "$3" from "$2" mark ${mark} 2>/dev/null | grep -q '${stay}'; }

# A rule that is added without a pref goes before all others, as wg-quick's do: ours is then added before it again.
place() { # family, source address
  lowest=$(listed "$1" | grep -v 'lookup ${routingTable}$' | sed 's/:.*//' | sort -n | head -n 1)
  at=${pref}
  [ "\${lowest:-32766}" -gt "$at" ] || at=$((lowest - 1))
  if [ "$at" -lt 1 ]; then
    echo "no room before the IPv$1 rule at pref $lowest" >&2
    return 1
  fi
  ours "$1" | grep -Fxq "$at: ${selector("$2")} lookup ${routingTable}" ||
    ip "-$1" rule add pref "$at" ${selector('"$2"')} lookup ${routingTable} protocol kernel || return 1
  ours "$1" | grep -Fxv "$at: ${selector("$2")} lookup ${routingTable}" | while IFS=' :' read -r other _; do
    ip "-$1" rule del pref "$other" table ${routingTable}
  done
  echo "placed the IPv$1 rule at pref $at"
}

assert() { # family, source address, some visitor
  if ! ip "-$1" route show table ${routingTable} 2>/dev/null | grep -q '^local default dev lo'; then
    ip "-$1" route replace local default dev lo table ${routingTable} protocol kernel || return 1
    echo "placed the IPv$1 route"
  fi
  if [ "$(ours "$1" | sed 's/^[0-9]*: //')" != "${selector("$2")} lookup ${routingTable}" ] || ! stays "$@"; then
    place "$@" && stays "$@"
  fi
}

assert 4 ${loopback.v4} ${stranger.v4} || exit 1
if ${hasIpv6}; then
  assert 6 ${loopback.v6} ${stranger.v6} || exit 1
fi
`;

const remove = `for family in 4 6; do
  while ip "-$family" rule del table ${routingTable} 2>/dev/null; do :; done
  ip "-$family" route flush table ${routingTable} 2>/dev/null
done
:`;

const unitText = `[Unit]
Description=pushgate: replies of the receiver's sockets stay on this machine
# Early, so that the rule stands before a socket of ours can be connected to.
DefaultDependencies=no
RequiresMountsFor=${paths.lib}
Wants=network-pre.target
Before=network-pre.target sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
# No ExecStop: a stop for whatever reason must not take the route from a delivery.
RemainAfterExit=yes
ExecStart=${script}
${placing("AF_INET ", "ProtectKernelModules=yes\nProtectKernelTunables=yes\n")}

[Install]
WantedBy=sysinit.target
`;

/** Facts of a family the machine lacks hold, or no host without IPv6 could ever be clean. */
function familyFacts({ flag, source, visitor, name }: (typeof families)[number]): HostFact[] {
  const where = (read: string, want: string): string =>
    flag === "-4" ? read : `if ${hasIpv6}; then ${read}; else echo '${want}'; fi`;
  const rule = `${selector(source)} lookup ${routingTable}`;
  const route = `local default dev lo`;
  return [
    {
      name: `${name} routing rule`,
      read: where(
        `ip ${flag} -N rule show table ${routingTable} | tr -s '\\t ' ' ' | sed 's/^[0-9]*: //; s/ *$//'`,
        rule,
      ),
      want: rule,
    },
    {
      name: `${name} route in table ${routingTable}`,
      read: where(`ip ${flag} route show table ${routingTable} 2>/dev/null | grep -o '^${route}'`, route),
      want: route,
    },
    {
      // The two above can stand and still be outranked; this asks the kernel where a reply would go.
      name: `way of a reply to an ${name} visitor`,
      read: where(
        `ip ${flag} route get ${visitor} from ${source} mark ${mark} 2>&1 | grep -o '${stay}' || echo elsewhere`,
        stay,
      ),
      want: stay,
    },
  ];
}

export function routing(_settings: Settings, _host: Host): HostLayer {
  const unit = `${paths.units}/${units.routing}` as const;
  return {
    name: "routing",
    files: [
      { path: script, text: scriptText, mode: "0755", owner: "root:root", check: 'sh -n "$1"' },
      { path: unit, text: unitText, mode: "0644", owner: "root:root" },
    ],
    owns: [script, unit],
    activate: `set -e
systemctl daemon-reload
systemctl enable --quiet ${units.routing}
systemctl restart ${units.routing}`,
    restore: `${forgetMissing(units.routing)}
if [ -x ${script} ]; then ${script}; else
  ${remove.replaceAll("\n", "\n  ")}
fi`,
    facts: [
      ...families.flatMap(familyFacts),
      { name: `${units.routing} at boot`, read: `systemctl is-enabled ${units.routing} 2>/dev/null`, want: "enabled" },
    ],
    retire: `systemctl disable --now --quiet ${units.routing} 2>/dev/null
${remove}`,
    present: true,
    timeout: 60,
  };
}
