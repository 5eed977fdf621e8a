/** Faults between keys of the configuration. Each check returns its faults, so that a user reads all of them at once. */
import { overlapCidr } from "cidr-tools";
import { verifiedGitHosts } from "../../service/git-hosts/index.ts";
import { loopback, networks } from "../networks.ts";
import { published } from "./derived.ts";
import { type Fault, faultsOf } from "./faults.ts";
import type { Config, GitHost, Host } from "./schema.ts";
import { servingFaults, siteFaults } from "./site-checks.ts";

const verified: readonly GitHost[] = verifiedGitHosts.toSorted();

/** Faults of values whose shapes fit. */
export const crossFaults = (config: Config): Fault[] => [
  ...config.hosts.flatMap((host, i) => hostFaults(host, `hosts[${i}]`, config.zone)),
  ...repeated(config.hosts, "hosts", "name", "Use a name for each host: resource names contain it."),
  ...repeated(config.hosts, "hosts", "hostname", "Use a hostname for each host: the git host gets one hook for each."),
  ...repeated(config.hosts, "hosts", "ssh", "List each host once: pushgate applies to all entries at the same time."),
  ...repeated(config.hooks, "hooks", "name", "Use a name for each hook: its path is /webhook/<name>."),
  ...config.hooks.flatMap((hook, i) => hookFaults(hook, `hooks[${i}]`)),
  ...faultsOf("edge.botFightMode", {
    [`is "off", but a rule skips bot products for hooks on the ${config.edge.plan} plan. Remove it.`]:
      config.edge.botFightMode !== undefined && config.edge.plan !== "free",
  }),
  ...siteFaults(config.hooks),
  ...servingFaults(config),
];

/** Entries whose value for a key an earlier entry has. */
const repeated = <K extends string>(entries: readonly Record<K, string>[], list: string, key: K, advice: string) =>
  entries.flatMap((entry, i) => {
    const first = entries.findIndex((other) => other[key] === entry[key]);
    const fault = `repeats ${list}[${first}].${key}, "${entry[key]}". ${advice}`;
    return faultsOf(`${list}[${i}].${key}`, { [fault]: first < i });
  });

const hostFaults = ({ hostname, originPort }: Host, key: string, zone: string): Fault[] => [
  ...faultsOf(`${key}.hostname`, {
    [`is "${zone}", the zone itself: Cloudflare would block all but hooks. Use another name, such as hooks.${zone}.`]:
      hostname === zone,
    [`is "${hostname}", which is not in the zone ${zone}. Use a name in it, such as hooks.${zone}.`]:
      hostname !== zone && !hostname.endsWith(`.${zone}`),
  }),
  ...faultsOf(`${key}.originPort`, {
    "is 22, SSH's port: only Cloudflare could then log in. Use another TCP port, such as 8443.": originPort === 22,
    [`is ${originPort}, the port of the host's other sites. Use a TCP port of its own, such as 8443.`]:
      originPort === 80 || originPort === 443,
  }),
];

const hookFaults = ({ name, gitHost, sources }: Config["hooks"][number], key: string): Fault[] => [
  ...faultsOf(`${key}.name`, {
    [`is "${name}", the name of the socket for ${name}'s published ranges. Use another name.`]:
      !published[gitHost] && name in published,
  }),
  ...faultsOf(`${key}.gitHost`, {
    [`is "${gitHost}", whose signature the receiver does not verify yet. Use one of ${verified.join(", ")}.`]:
      !verified.includes(gitHost),
  }),
  ...faultsOf(`${key}.sources`, {
    [`is set, but ${gitHost} publishes its source ranges, and pushgate carries them. Remove it.`]:
      published[gitHost] !== undefined && sources !== undefined,
    [`is missing, and ${gitHost} is self-hosted. Use a list of the addresses that it sends deliveries from.`]:
      !published[gitHost] && sources === undefined,
  }),
  ...(sources ?? []).flatMap((source, j) => sourceFaults(source, `${key}.sources[${j}]`)),
];

function sourceFaults(source: string, key: string): Fault[] {
  const isAll = source.endsWith("/0");
  const isLocal = overlapCidr([loopback.v4range, loopback.v6], source);
  return faultsOf(key, {
    [`is "${source}", which admits every address. Use the git host's own address.`]: isAll,
    // If nginx lost its proxy_bind, the receiver would then admit every visitor.
    [`is "${source}", which covers the host itself. Use the git host's own address.`]: isLocal && !isAll,
    [`is "${source}", which overlaps Cloudflare's ranges. Use the git host's address, not its proxy's.`]:
      overlapCidr([...networks.cloudflare.cidrs], source) && !isLocal && !isAll,
  });
}
