/** Faults between keys of the configuration. Each check returns its faults, so that a user reads all of them at once. */
import { normalizeCidr, overlapCidr } from "cidr-tools";
import { repositoryOf } from "../../service/git-hosts/repository.ts";
import { webhookPath } from "../contract.ts";
import { loopback, networks } from "../networks.ts";
import { isOutside, otherGitHost, ownPortRange, published } from "./derived.ts";
import { type Fault, faultsOf } from "./faults.ts";
import { sshTarget } from "./forms.ts";
import type { Host, Parts, Placed } from "./schema.ts";
import { servingFaults, siteFaults } from "./site-checks.ts";

/** `isReal`: the API is Cloudflare's own, so that the values of the example of a stack are faults. */
export const crossFaults = (config: Parts, isReal: boolean): Fault[] => [
  ...faultsOf("zone", {
    [`is "${config.zone}", the example's. Use the name of your own zone.`]:
      isReal && /^example\.(org|com|net)$/.test(config.zone),
  }),
  ...config.hosts.flatMap((host) => hostFaults(host, config.zone, isReal)),
  ...repeated(config.hosts, "name", "Use a name for each host: resource names contain it."),
  ...repeated(config.hosts, "hostname", "Use a hostname for each host: the git host gets one webhook for each."),
  ...repeated(config.hosts, "ssh", "List each host once: pushgate applies to all entries at the same time.", loginOf),
  ...repeated(config.hosts, "address", "Use an address for each host: Cloudflare finds a host by it."),
  ...repeated(config.hosts, "address6", "Use an address for each host: Cloudflare finds a host by it.", normalizeCidr),
  ...repeated(config.hooks, "name", `Use a name for each hook: its path is ${webhookPath("<name>")}.`),
  ...config.hooks.flatMap((hook) => hookFaults(hook, isReal)),
  ...faultsOf("edge.botFightMode", {
    [`is "off", but a rule skips bot products for hooks on the ${config.edge.plan} plan. Remove it.`]:
      config.edge.botFightMode !== undefined && config.edge.plan !== "free",
  }),
  ...ownNameFaults(config),
  ...notifyFaults(config),
  ...siteFaults(config.hooks),
  ...servingFaults(config),
];

/** `same`: one text for all that mean the same. */
function repeated<K extends string>(
  entries: readonly Placed<{ readonly [key in K]?: string }>[],
  key: K,
  advice: string,
  same = (text: string): string => text,
): Fault[] {
  const textOf = (entry: { readonly [key in K]?: string }) => entry[key] && same(entry[key]);
  return entries.flatMap((entry) => {
    const first = entries.find((other) => textOf(other) === textOf(entry))!;
    const fault = `repeats ${first.at}.${key}, "${first[key]}". ${advice}`;
    return faultsOf(`${entry.at}.${key}`, { [fault]: first !== entry && entry[key] !== undefined });
  });
}

function loginOf(ssh: string): string {
  const { user, host, port = "22" } = sshTarget(ssh);
  return `${user}${host.toLowerCase()} ${port}`;
}

const isIn = (network: keyof typeof networks, range: string): boolean =>
  overlapCidr([...networks[network].cidrs], range);

const exampleFault = (address: string, isReal: boolean) => ({
  [`is "${address}", which is reserved for documentation. Use a real address.`]:
    isReal && isIn("documentation", address),
});

function hostFaults(host: Placed<Host>, zone: string, isReal: boolean): Fault[] {
  const { at: key, ssh, hostname, originPort, address, address6 } = host;
  const outside = isOutside(hostname, zone);
  return [
    ...Object.entries({ address, ...(address6 !== undefined && { address6 }) }).flatMap(([name, address]) =>
      faultsOf(`${key}.${name}`, {
        [`is "${address}", which the internet does not route. Use the public address; behind NAT, that of the router.`]:
          isIn("notPublic", address),
        [`is "${address}", which is Cloudflare's. Use the address of the host behind it.`]: isIn("cloudflare", address),
        ...exampleFault(address, isReal),
      }),
    ),
    ...faultsOf(`${key}.hostname`, {
      [`is "${zone}", the zone itself: Cloudflare would block all but hooks. Use another name, such as hooks.${zone}.`]:
        hostname === zone,
      [`is "${hostname}", which is not in the zone ${zone}. Use a name in it, such as hooks.${zone}.`]: outside,
    }),
    ...faultsOf(`${key}.originPort`, {
      [`is ${originPort}, SSH's port: only Cloudflare could then log in. Use another TCP port, such as 8443.`]:
        originPort === 22 || String(originPort) === sshTarget(ssh).port,
      [`is ${originPort}, and pushgate's own ports are ${ownPortRange.first} to ${ownPortRange.last}. Use another TCP port, such as 8443.`]:
        originPort >= ownPortRange.first && originPort <= ownPortRange.last,
      [`is ${originPort}, the port of the host's other sites. Use a TCP port of its own, such as 8443.`]:
        originPort === 80 || originPort === 443,
    }),
  ];
}

function hookFaults(hook: Parts["hooks"][number], isReal: boolean): Fault[] {
  const { at: key, gitHost, repository, sources, branch } = hook;
  const other = otherGitHost(hook);
  return [
    ...faultsOf(`${key}.branch`, {
      [`is "${branch}", the full name of a ref. Use a branch's name alone, such as ${/^refs\/heads\/(.+)/.exec(branch)?.[1] ?? "main"}.`]:
        branch.startsWith("refs/"),
    }),
    ...faultsOf(`${key}.repository`, {
      [`is at ${repositoryOf(repository).host}, and gitHost is "${gitHost}". Use a repository of the git host that delivers, or gitHost: ${other}${other && published[other] ? "" : " with `sources`"}.`]:
        other !== undefined,
    }),
    ...faultsOf(`${key}.sources`, {
      [`is set, but ${gitHost} publishes its source ranges, and pushgate carries them. Remove it.`]:
        published[gitHost] !== undefined && sources !== undefined,
      [`is missing, and ${gitHost} publishes no source ranges. Use a list of the addresses that it sends deliveries from.`]:
        !published[gitHost] && sources === undefined,
    }),
    ...(sources ?? []).flatMap((source, j) => sourceFaults(source, `${key}.sources[${j}]`, isReal)),
  ];
}

/** What follows the URL is a secret, or a message's own id. */
function notifyFaults({ hooks }: Pick<Parts, "hooks">): Fault[] {
  return hooks.flatMap(({ at, site: { notify = [] } = {} }) => {
    const recipients = notify.map((one, i) => ({ ...one, at: `${at}.site.notify[${i}]` }));
    return [
      ...repeated(recipients, "name", "Use a name for each recipient: its secret is found by it."),
      ...faultsOf(`${at}.site.notify`, {
        "has more than one recipient of format email. List all addresses in the url of one, 10 at most.":
          recipients.filter(({ format }) => format === "email").length > 1,
      }),
      ...recipients.flatMap(({ at, format, url }) =>
        faultsOf(`${at}.url`, {
          [`is "${url}", and format is "${format}". Use mailto: with addresses for email, and an https:// URL for every other format.`]:
            (format === "email") !== url.startsWith("mailto:"),
          "has no slash at its end. Cut it after the last slash that is no secret.":
            !/^(ntfy|standard|email)$/.test(format) && /^https:(?![^?]*\/$)/.test(url),
        }),
      ),
    ];
  });
}

/** At these names pushgate takes deliveries and visits of a site, and nothing else. */
function ownNameFaults({ hosts, hooks }: Pick<Parts, "hosts" | "hooks">): Fault[] {
  const own = [...hosts, ...hooks.flatMap(({ site }) => [site, site?.previews])].map((one) => one?.hostname);
  return hooks.flatMap(({ at, repository, site: { notify = [] } = {} }) =>
    [
      [`${at}.repository`, repositoryOf(repository).host] as const,
      ...notify.map(({ url }, i) => [`${at}.site.notify[${i}].url`, new URL(url).hostname] as const),
    ].flatMap(([key, name]) =>
      faultsOf(key, {
        [`is at ${name}, where pushgate itself answers. Use another hostname for one of them.`]: own.includes(name),
      }),
    ),
  );
}

function sourceFaults(source: string, key: string, isReal: boolean): Fault[] {
  if (source.endsWith("/0"))
    return [{ key, says: `is "${source}", which admits every address. Use the git host's own address.` }];
  // If nginx lost its proxy_bind, the receiver would then admit every visitor.
  if (overlapCidr([loopback.v4range, loopback.v6], source))
    return [{ key, says: `is "${source}", which covers the host itself. Use the git host's own address.` }];
  const proxied = isIn("cloudflare", source);
  return faultsOf(key, {
    ...exampleFault(source, isReal),
    [`is "${source}", which overlaps Cloudflare's ranges. Use the git host's address, not its proxy's.`]: proxied,
    [`is "${source}", which the internet does not route, and deliveries come through Cloudflare. Use the git host's public address.`]:
      isIn("notPublic", source),
  });
}
