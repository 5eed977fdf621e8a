/**
 * What a site asks of the rest of the configuration, where it is rebuilt: folders, host keys, ranges, hugo. Pure, all
 * faults at once.
 */
import { containsCidr, overlapCidr } from "cidr-tools";
import { local, networks } from "../networks.ts";
import { knownAs, remoteOf } from "./derived.ts";
import type { Fault } from "./faults.ts";
import type { Config, Site as SiteSettings } from "./schema.ts";

type Site = { readonly key: string; readonly repository: string; readonly site: SiteSettings };

const isUnder = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
const meet = (a: string, b: string): boolean => isUnder(a, b) || isUnder(b, a);

/** The machine's, ours, and what a sandbox has of its own. */
const systems = /^\/(bin|boot|dev|etc|lib\w*|proc|run|sbin|sys|tmp|usr|var\/(tmp|(lib|spool)\/pushgate[^/]*))(\/|$)/;
/** Folders that hold everybody's. */
const shared = ["/home", "/media", "/mnt", "/opt", "/root", "/srv", "/var", "/var/lib", "/var/log", "/var/spool"];

export function rebuildFaults({ hooks }: Pick<Config, "hooks">): Fault[] {
  const sites = hooks.flatMap(({ repository, site }, i) =>
    site === undefined ? [] : [{ key: `hooks[${i}].site`, repository, site }],
  );
  const names = hooks.map(({ name }) => name);
  return [
    ...sites.flatMap((site) => [
      ...folderFaults(site),
      ...keepFaults(site),
      ...knownHostsFaults(site),
      ...egressFaults(site),
      ...hugoFaults(site),
    ]),
    ...sharedFaults(sites),
    // Its credential would lie where that one's does.
    ...hooks.flatMap(({ name }, i): Fault[] =>
      name.endsWith("-deploy-key") && names.includes(name.replace(/-deploy-key$/, ""))
        ? [{ key: `hooks[${i}].name`, says: "is what another hook's deploy key is called: call it otherwise" }]
        : [],
    ),
  ];
}

function folderFaults({ key, site: { webRoot, content } }: Site): Fault[] {
  const folders = { webRoot, content };
  const faults = Object.entries(folders).flatMap(([name, path]): Fault[] => {
    if (systems.test(path))
      return [{ key: `${key}.${name}`, says: "is the system's: name a folder of the site's own" }];
    if (shared.includes(path))
      return [{ key: `${key}.${name}`, says: "holds more than this site: name a folder of the site's own below it" }];
    return [];
  });
  if (isUnder(webRoot, "/root"))
    faults.push({
      key: `${key}.webRoot`,
      says: "is root's own, where no web server gets: name another, such as /var/www/site",
    });
  if (isUnder(content, webRoot))
    faults.push({
      key: `${key}.content`,
      says: "lies in webRoot, which is exchanged at each publish: move it beside",
    });
  else if (isUnder(webRoot, content))
    faults.push({ key: `${key}.webRoot`, says: "lies in the content, which is never written: move it beside" });
  return faults;
}

/** Between two sites: one's web root is nobody else's folder. */
const sharedFaults = (sites: readonly Site[]): Fault[] =>
  sites.flatMap(({ key, site }, i) =>
    sites.slice(0, i).flatMap((before): Fault[] => {
      const theirs = before.site;
      if (meet(site.webRoot, theirs.webRoot))
        return [
          { key: `${key}.webRoot`, says: `meets ${before.key}.webRoot: two sites can't be published in one folder` },
        ];
      if (meet(site.webRoot, theirs.content))
        return [{ key: `${key}.webRoot`, says: `meets ${before.key}.content, which is never written: name another` }];
      if (meet(site.content, theirs.webRoot))
        return [
          { key: `${key}.content`, says: `meets ${before.key}.webRoot, which is exchanged at each publish: move it` },
        ];
      return [];
    }),
  );

const keepFaults = ({ key, site: { keep } }: Site): Fault[] =>
  keep.flatMap((path, i) =>
    keep
      .slice(0, i)
      .flatMap((before, j): Fault[] =>
        meet(path, before)
          ? [{ key: `${key}.keep[${i}]`, says: `meets keep[${j}]: name the wider of the two alone` }]
          : [],
      ),
  );

function knownHostsFaults({ key, repository, site: { knownHosts } }: Site): Fault[] {
  const remote = remoteOf(repository);
  if (!remote.ssh) return [];
  const name = knownAs(remote);
  if (knownHosts.some((line) => line.split(" ")[0]!.split(",").includes(name))) return [];
  const scan = `ssh-keyscan ${remote.port === 22 ? "" : `-p ${remote.port} `}${remote.host}`;
  return [
    {
      key: `${key}.knownHosts`,
      says: `${knownHosts.length === 0 ? "is missing" : `names no ${name}`}: take the lines of ${scan}, and compare them with the fingerprints the git host publishes (ssh-keygen -lf)`,
    },
  ];
}

const egressFaults = ({ key, site: { egress } }: Site): Fault[] =>
  egress.flatMap((range, i): Fault[] => {
    const at = `${key}.egress[${i}]`;
    if (range.endsWith("/0")) return [{ key: at, says: "opens every address there is: name the git host's own" }];
    if (overlapCidr([...local], range))
      return [{ key: at, says: "covers the machine itself, or its cloud's metadata: name the git host's own address" }];
    if (!networks.notPublic.cidrs.some((cidr) => containsCidr(cidr, range)))
      return [{ key: at, says: "is on the internet, which a fetch reaches in any case: leave it out" }];
    return [];
  });

function hugoFaults({ key, site: { hugo } }: Site): Fault[] {
  const unseen = /^\/(dev|home|proc|root|run|sys|tmp|var\/tmp)\//.test(hugo.path);
  const patterns = (["exec", "http"] as const).flatMap((list) =>
    hugo[list].flatMap((pattern, i): Fault[] =>
      isPattern(pattern)
        ? []
        : [
            {
              key: `${key}.hugo.${list}[${i}]`,
              says: "is no regular expression: see hugo's documentation of `security`",
            },
          ],
    ),
  );
  return [
    ...(unseen
      ? [{ key: `${key}.hugo.path`, says: "lies where hugo's sandbox has nothing: install it into /usr/local/bin" }]
      : []),
    ...patterns,
  ];
}

/** As Go reads it, but for what only Go knows: flags before it, and named groups. */
function isPattern(pattern: string): boolean {
  if (/[\u0000-\u001f\u007f]/.test(pattern)) return false;
  try {
    new RegExp(pattern.replace(/\(\?[imsU-]+\)/g, "").replaceAll("(?P<", "(?<"));
    return true;
  } catch {
    return false;
  }
}

/** Names one certificate of the edge's Origin CA holds; every machine's holds all sites' and its own. */
const namesPerCertificate = 200;

export function servingFaults({ zone, hosts, hooks }: Pick<Config, "zone" | "hosts" | "hooks">): Fault[] {
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
