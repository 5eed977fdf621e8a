/** guard.sh, at boot and every minute: a kernel without BPF opens the sockets, and only a connection shows that. */
import { containsCidr } from "cidr-tools";
import { sourceSets } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { exampleAddress, isV4, loopback, networks, v4, v6 } from "../../networks.ts";
import { enabledAndActive, file, layerOf, portsOf, program, template, textBeside, unitFile } from "../kit.ts";
import { paths, units } from "../paths.ts";

const guardScript = `${paths.lib}/guard` as const;
export const guardConfiguration = `${paths.etc}/guard.conf` as const;

/**
 * Sources that every socket must reject: documentation addresses, the host itself, and Cloudflare, from whose address
 * nginx would connect if the visitor's were missing. An address that a hook's sources cover is left out.
 */
export function mustReject(settings: Pick<Settings, "hooks">): string[] {
  const edge = [v4(networks.cloudflare.cidrs), v6(networks.cloudflare.cidrs)].map((cidrs) => cidrs[0]!.split("/")[0]!);
  const admitted = sourceSets(settings).flatMap(({ cidrs }) => cidrs);
  return [exampleAddress.v4, exampleAddress.v6, loopback.v4, loopback.v6, ...edge]
    .filter((address) => !containsCidr(admitted, address))
    .sort((a, b) => Number(isV4(b)) - Number(isV4(a)));
}

export function guardLayer(settings: Settings) {
  const { firewall, routing } = units;
  const configuration = template(import.meta.url, "guard.conf", {
    program: guardScript,
    mustReject: mustReject(settings),
    ports: portsOf(settings),
    table: paths.nftables,
    receiver: units.receiver,
    sockets: units.socket("*"),
    builds: [units.build("*"), units.generator("*", "*"), units.report("*")],
    nginx: units.nginx,
  });
  return layerOf(import.meta.url, "guard", {
    values: { service: units.guard, timer: units.guardTimer, program: guardScript, run: paths.guard },
    files: [
      file(guardConfiguration, configuration, { check: 'sh -n "$1"' }),
      program(guardScript, textBeside(import.meta.url, "guard.sh"), { fixed: true }),
      file(`${paths.lib}/prober`, textBeside(import.meta.url, "prober.pl"), {
        ...{ mode: "0755", check: 'perl -c "$1"', fixed: true },
      }),
      unitFile(import.meta.url, units.guard, { program: guardScript, firewall, routing }),
      unitFile(import.meta.url, units.guardTimer),
    ],
    facts: [
      enabledAndActive(units.guardTimer),
      { name: `${units.guard} at boot`, read: `systemctl is-enabled ${units.guard} 2>/dev/null`, want: "enabled" },
      { name: "the allowlist", read: "verdict", want: "proven" },
    ],
    timeout: 120,
  });
}
