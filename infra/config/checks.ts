/** Faults between keys of the configuration. Each check returns its faults, so that a user reads all of them at once. */
import { overlapCidr } from "cidr-tools";
import { repositoryOf } from "../../service/git-hosts/repository.ts";
import { webhookPath } from "../contract.ts";
import { loopback, networks } from "../networks.ts";
import { gitHostAt, isElsewhere, isOutside, published } from "./derived.ts";
import { type Fault, faultsOf } from "./faults.ts";
import type { Host, Parts, Placed } from "./schema.ts";
import { servingFaults, siteFaults } from "./site-checks.ts";

/** Faults of values whose shapes fit. */
export const crossFaults = (config: Parts): Fault[] => [
  ...config.hosts.flatMap((host) => hostFaults(host, config.zone)),
  ...repeated(config.hosts, "name", "Use a name for each host: resource names contain it."),
  ...repeated(config.hosts, "hostname", "Use a hostname for each host: the git host gets one webhook for each."),
  ...repeated(config.hosts, "ssh", "List each host once: pushgate applies to all entries at the same time."),
  ...repeated(config.hosts, "address", "Use an address for each host: Cloudflare finds a host by it."),
  ...repeated(config.hooks, "name", `Use a name for each hook: its path is ${webhookPath("<name>")}.`),
  ...config.hooks.flatMap(hookFaults),
  ...faultsOf("edge.botFightMode", {
    [`is "off", but a rule skips bot products for hooks on the ${config.edge.plan} plan. Remove it.`]:
      config.edge.botFightMode !== undefined && config.edge.plan !== "free",
  }),
  ...siteFaults(config.hooks),
  ...servingFaults(config),
];

/** Entries whose value for a key an earlier entry has. */
const repeated = <K extends string>(entries: readonly Placed<Record<K, string>>[], key: K, advice: string): Fault[] =>
  entries.flatMap((entry) => {
    const first = entries.find((other) => other[key] === entry[key])!;
    const fault = `repeats ${first.at}.${key}, "${entry[key]}". ${advice}`;
    return faultsOf(`${entry.at}.${key}`, { [fault]: first !== entry });
  });

const hostFaults = ({ at: key, hostname, originPort, address, address6 }: Placed<Host>, zone: string): Fault[] => [
  ...addressFaults(address, `${key}.address`),
  ...(address6 === undefined ? [] : addressFaults(address6, `${key}.address6`)),
  ...faultsOf(`${key}.hostname`, {
    [`is "${zone}", the zone itself: Cloudflare would block all but hooks. Use another name, such as hooks.${zone}.`]:
      hostname === zone,
    [`is "${hostname}", which is not in the zone ${zone}. Use a name in it, such as hooks.${zone}.`]: isOutside(
      hostname,
      zone,
    ),
  }),
  ...faultsOf(`${key}.originPort`, {
    "is 22, SSH's port: only Cloudflare could then log in. Use another TCP port, such as 8443.": originPort === 22,
    [`is ${originPort}, the port of the host's other sites. Use a TCP port of its own, such as 8443.`]:
      originPort === 80 || originPort === 443,
  }),
];

/** Cloudflare connects to the host at its address. */
const addressFaults = (address: string, key: string): Fault[] =>
  faultsOf(key, {
    [`is "${address}", which the internet does not route. Use the public address; behind NAT, that of the router.`]:
      overlapCidr([...networks.notPublic.cidrs], address),
    [`is "${address}", which is Cloudflare's own. Use the address of the host behind it.`]: overlapCidr(
      [...networks.cloudflare.cidrs],
      address,
    ),
  });

function hookFaults(hook: Parts["hooks"][number]): Fault[] {
  const { at: key, name, gitHost, sources, branch } = hook;
  return [
    ...faultsOf(`${key}.branch`, {
      [`is "${branch}", the full name of a ref. Use a branch's name alone, such as ${/^refs\/heads\/(.+)/.exec(branch)?.[1] ?? "main"}.`]:
        branch.startsWith("refs/"),
    }),
    ...repositoryFaults(hook, `${key}.repository`),
    ...faultsOf(`${key}.name`, {
      [`is "${name}", the name of the socket for ${name}'s published ranges. Use another name.`]:
        !published[gitHost] && Object.hasOwn(published, name),
    }),
    ...faultsOf(`${key}.sources`, {
      [`is set, but ${gitHost} publishes its source ranges, and pushgate carries them. Remove it.`]:
        published[gitHost] !== undefined && sources !== undefined,
      [`is missing, and ${gitHost} publishes no source ranges. Use a list of the addresses that it sends deliveries from.`]:
        !published[gitHost] && sources === undefined,
    }),
    ...(sources ?? []).flatMap((source, j) => sourceFaults(source, `${key}.sources[${j}]`)),
  ];
}

function repositoryFaults(hook: Parts["hooks"][number], key: string): Fault[] {
  const { host } = repositoryOf(hook.repository);
  const name = gitHostAt(hook.repository);
  return faultsOf(key, {
    [`is at ${host}, and gitHost is "${hook.gitHost}". Use a repository of the git host that delivers, or gitHost: ${name}.`]:
      isElsewhere(hook),
  });
}

function sourceFaults(source: string, key: string): Fault[] {
  const isAll = source.endsWith("/0");
  const isLocal = overlapCidr([loopback.v4range, loopback.v6], source);
  return faultsOf(key, {
    [`is "${source}", which admits every address. Use the git host's own address.`]: isAll,
    // If nginx lost its proxy_bind, the receiver would then admit every visitor.
    [`is "${source}", which covers the host itself. Use the git host's own address.`]: isLocal && !isAll,
    [`is "${source}", which overlaps Cloudflare's ranges. Use the git host's address, not its proxy's.`]:
      overlapCidr([...networks.cloudflare.cidrs], source) && !isLocal && !isAll,
    [`is "${source}", which the internet does not route, and deliveries come through Cloudflare. Use the git host's public address.`]:
      overlapCidr([...networks.notPublic.cidrs], source) && !isLocal && !isAll,
  });
}

/**
 * Faults of values that the example of a stack has.
 */
export const exampleFaults = ({ zone, hosts, hooks }: Parts): Fault[] => {
  const isExample = (range = "") => range !== "" && overlapCidr([...networks.documentation.cidrs], range);
  const addresses: [key: string, range: string | undefined][] = [
    ...hosts.flatMap(({ at, address, address6 }): typeof addresses => [
      [`${at}.address`, address],
      [`${at}.address6`, address6],
    ]),
    ...hooks.flatMap(({ at, sources = [] }) =>
      sources.map((source, j): (typeof addresses)[0] => [`${at}.sources[${j}]`, source]),
    ),
  ];
  return [
    ...faultsOf("zone", {
      [`is "${zone}", the example's. Use the name of your own zone.`]: /^example\.(org|com|net)$/.test(zone),
    }),
    ...addresses.flatMap(([key, range]) =>
      faultsOf(key, { [`is "${range}", which is reserved for documentation. Use a real address.`]: isExample(range) }),
    ),
  ];
};
