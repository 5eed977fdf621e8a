/** What serving a site (`hooks[].site.hostname`) asks of the rest of the configuration: pure, all faults at once. */
import type * as v from "valibot";
import type { shape } from "./schema.ts";
import type { Fault } from "./settings.ts";

type Config = Pick<v.InferOutput<typeof shape>, "zone" | "hosts" | "hooks">;

/** Names one certificate of the edge's Origin CA holds; every machine's holds all sites' and its own. */
const namesPerCertificate = 200;

export function servingFaults({ zone, hosts, hooks }: Config): Fault[] {
  const sites = hooks.flatMap(({ site }, i) =>
    site?.hostname === undefined ? [] : [{ key: `hooks[${i}].site.hostname`, hostname: site.hostname }],
  );
  if (sites.length === 0) return [];
  const faults = sites.flatMap(({ key, hostname }, i): Fault[] => {
    const hooked = hosts.findIndex((host) => host.hostname === hostname);
    const before = sites.findIndex((other) => other.hostname === hostname);
    return [
      ...(hostname !== zone && !hostname.endsWith(`.${zone}`) ? [{ key, says: `is not in the zone ${zone}` }] : []),
      ...(hooked < 0
        ? []
        : [{ key, says: `is hosts[${hooked}].hostname, where everything but hooks is blocked: take another name` }]),
      ...(before === i ? [] : [{ key, says: `repeats ${sites[before]!.key}: one name leads to one site` }]),
    ];
  });
  if (sites.length >= namesPerCertificate)
    faults.push({
      key: "hooks",
      says: `serve ${sites.length} sites: a machine's certificate holds 199 beside its own name`,
    });
  return [...faults, ...portFaults(hosts, sites[0]!.hostname)];
}

/** A site's name leads to all machines, and the edge has one port for a name. */
function portFaults(hosts: Config["hosts"], hostname: string): Fault[] {
  const standing = hosts.map((host, i) => ({ ...host, key: `hosts[${i}]` })).filter(({ state }) => state !== "absent");
  const [first] = standing;
  return standing.flatMap(({ key, originPort, address }): Fault[] => {
    const before = standing.find((other) => other.address === address)!;
    const port = `${key}.originPort`;
    const oneName = `the edge contacts both for ${hostname}, on one port`;
    return [
      ...(originPort === first!.originPort
        ? []
        : [
            {
              key: port,
              says: `is ${originPort}, ${first!.key}'s is ${first!.originPort}, and ${oneName}: give them the same`,
            },
          ]),
      ...(before.key === key
        ? []
        : [{ key: `${key}.address`, says: `is ${before.key}'s, too, and ${oneName}: give each machine its own` }]),
    ];
  });
}
