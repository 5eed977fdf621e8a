/**
 * Keeps the replies of the receiver's sockets on the host. nginx connects to them from the visitor's own address, so
 * their replies are addressed to the visitor; without this layer they leave by the default route and every delivery
 * ends in a 504. One rule and one route for each address family, in a routing table of pushgate's own.
 */
import type { HostFact } from "../../apply/layer.ts";
import { exampleAddress, loopback } from "../../networks.ts";
import { oneshotLayer, oneshotSandbox, program, template, unitFile } from "../kit.ts";
import { paths, units } from "../paths.ts";

/**
 * What the sockets' `Mark=` is. In the low byte, under a mask of just that byte: kube-proxy, Calico, Cilium and
 * Tailscale keep their flags in bits 8 and up and may OR them into pushgate's packets; wg-quick's mark ends in 6c.
 */
export const mark = 0xe7;
export const markMask = 0xff;

/** Ids up to 255 may be anyone's; this one is next to the sockets' ports. */
export const routingTable = 9460;

/**
 * Before Tailscale's rules at 5210, which would send the replies into a tunnel, and with room for programs that add
 * rules without a pref: the kernel gives them one less than the lowest, and wg-quick's pair must still count down.
 */
const pref = 90;

const fwmark = [mark, markMask].map((value) => `0x${value.toString(16)}`).join("/");

function familyFacts(family: 4 | 6): HostFact[] {
  const version = `v${family}` as const;
  const rule = `from ${loopback[version]} fwmark ${fwmark} iif lo lookup ${routingTable}`;
  const route = "local default dev lo";
  const way = `dev lo table ${routingTable}`;
  const about = `IPv${family}`;
  return [
    { name: `${about} routing rule`, read: `rule ${family} '${rule}'`, want: rule, about },
    { name: `${about} route in table ${routingTable}`, read: `routes ${family} '${route}'`, want: route, about },
    {
      name: `route of a reply to an ${about} visitor`,
      read: `way_of_reply ${family} '${way}' ${loopback[version]} ${exampleAddress[version]}`,
      ...{ want: way, about },
    },
  ];
}

export function routingLayer() {
  const path = `${paths.lib}/routing` as const;
  const unit = units.routing;
  const script = template(import.meta.url, "routing.sh", {
    ...{ table: routingTable, pref, fwmark, loopback4: loopback.v4, loopback6: loopback.v6 },
    ...{ visitor4: exampleAddress.v4, visitor6: exampleAddress.v6 },
  });
  const sandbox = oneshotSandbox("AF_INET ", "ProtectKernelModules=yes\nProtectKernelTunables=yes");
  return oneshotLayer(import.meta.url, "routing", {
    values: { unit, needs: path, table: routingTable, mark },
    files: [program(path, script), unitFile(import.meta.url, unit, { folder: paths.lib, program: path, sandbox })],
    facts: [
      ...familyFacts(4),
      ...familyFacts(6),
      { name: `${unit} at boot`, read: 'systemctl is-enabled "$unit" 2>/dev/null', want: "enabled" },
    ],
  });
}
