/** Faults of the sites: their folders, SSH host keys, ranges and hostnames. */
import { containsCidr, overlapCidr } from "cidr-tools";
import { repositoryOf } from "../../service/git-hosts/repository.ts";
import { local, networks } from "../networks.ts";
import { isOutside, otherGitHost, previewsName } from "./derived.ts";
import { type Fault, faultsOf } from "./faults.ts";
import type { Parts } from "./schema.ts";
import { oldest } from "./site-schema.ts";
import { isOlder, type Release, releasesOf } from "./tools.ts";

const keyed = (hooks: Parts["hooks"]) =>
  hooks.flatMap(({ at, site, ...hook }) => (site ? [{ ...hook, key: `${at}.site`, site }] : []));
type Keyed = ReturnType<typeof keyed>[number];

const isBelow = (path: string, folder: string): boolean => path.startsWith(`${folder}/`);
const overlap = (a: string, b: string): boolean => a === b || isBelow(a, b) || isBelow(b, a);

/** Folders of the system, of pushgate, and those that a sandbox replaces. */
const systemFolders =
  /^\/(bin|boot|dev|etc|lib\w*|proc|run|sbin|sys|tmp|usr|var\/(tmp|(cache|lib|log|spool)\/pushgate[^/]*))(\/|$)/;
const sharedFolders = /^\/(home|media|mnt|opt|root|srv|var(\/(cache|lib|log|spool|www))?)$/;

export function siteFaults(hooks: Parts["hooks"]): Fault[] {
  const sites = keyed(hooks);
  return sites.flatMap((one, i) => [
    ...folderFaults(one),
    ...sites.slice(0, i).flatMap((before) => sharedFaults(one, before)),
    ...servedFolderFaults(one, sites),
    ...previewFaults(one, sites, hooks),
    ...faultsOf(`${one.key}.purge`, {
      "is true, and hostname is not set, so pushgate serves nothing through Cloudflare. Set hostname, or remove purge.":
        one.site.purge && one.site.hostname === undefined,
    }),
    ...variableFaults(one),
    ...toolFaults(one, sites.slice(0, i)),
    ...knownHostsFaults(one),
    ...one.site.egress.flatMap((range, j) => egressFaults(range, `${one.key}.egress[${j}]`)),
  ]);
}

const ownFolder = (path: string): Record<string, boolean> => ({
  [`is "${path}", which belongs to the system. Use a folder of the site's own.`]: systemFolders.test(path),
  [`is "${path}", which holds more than this site. Use a folder below it.`]: sharedFolders.test(path),
});

const folderFaults = ({ key, site: { webRoot, content = "", folder = "" } }: Keyed): Fault[] => [
  ...faultsOf(`${key}.webRoot`, {
    ...ownFolder(webRoot),
    [`is "${webRoot}", in root's home, which no web server can read. Use another folder, such as /var/www/site.`]:
      isBelow(webRoot, "/root"),
    [`is "${webRoot}", inside content, which pushgate never writes. Move it outside content.`]:
      content !== "" && isBelow(webRoot, content),
  }),
  ...faultsOf(`${key}.content`, {
    ...ownFolder(content),
    [`is "${content}", inside webRoot, which is replaced on every publish. Move it outside webRoot.`]:
      content === webRoot || isBelow(content, webRoot),
  }),
  ...faultsOf(`${key}.folder`, {
    [`is "${folder}", in a folder that git keeps for itself. Use the folder that holds Hugo's configuration.`]:
      /(^|\/)\.git(\/|$)/i.test(folder),
  }),
];

/** Hugo reads names in any case, and one that is there twice in any order. */
export const ownVariables =
  /^HUGO_((BASEURL|BUILD_NOJSCONFIGINASSETS|CACHEDIR|CONTENTDIR|ENABLEGITINFO|ENVIRONMENT|NOBUILDLOCK|PUBLISHDIR|RESOURCEDIR)$|SECURITY_)/i;

const variableFaults = ({ key, site: { hugo } }: Keyed): Fault[] =>
  Object.keys(hugo.variables).flatMap((name) =>
    faultsOf(`${key}.hugo.variables.${name}`, {
      "is no name that a build may read. Use HUGO_…, HUGOxPARAMSx… or NODE_ENV.":
        !/^(HUGO_[A-Za-z0-9]\w*|HUGOxPARAMSx\w+|NODE_ENV)$/.test(name),
      [`is none of the build's. Use baseUrl, environment, exec and http of ${key}.hugo; the site itself sets enableGitInfo.`]:
        ownVariables.test(name),
    }),
  );

function toolFaults({ key, name, site }: Keyed, before: readonly Keyed[]): Fault[] {
  const npm = faultsOf(`${key}.npm`, {
    [`is true, and ${key}.tools.node is missing, which has npm. Run npx pushgate tools ${name} node=<release>.`]:
      site.npm && site.tools.node === undefined,
  });
  const each = releasesOf(site).flatMap(({ tool, release, id }) => {
    const { version } = release;
    const other = before.find(({ site }) =>
      releasesOf(site).some((one) => one.id === id && differ(one.release, release)),
    );
    return faultsOf(`${key}.tools.${tool}`, {
      [`is ${version}, and pushgate knows no release before ${oldest}. Use a later one.`]:
        tool === "hugo" && isOlder(version, oldest),
      [`is ${version}, as in ${other?.key}, with other digests. Correct those that the release's page does not have.`]:
        other !== undefined,
    });
  });
  return [...npm, ...each];
}

const differ = (a: Release, b: Release): boolean => a.amd64 !== b.amd64 || a.arm64 !== b.arm64;

/** Two sites may read one content folder; everything else of them is separate. */
function sharedFaults({ key, site }: Keyed, before: Keyed): Fault[] {
  const pairs = [
    ["webRoot", "webRoot"],
    ["webRoot", "content"],
    ["content", "webRoot"],
  ] as const;
  const isShared = (one?: string, another?: string): boolean =>
    one !== undefined && another !== undefined && overlap(one, another);
  const [name, other] = pairs.find(([name, other]) => isShared(site[name], before.site[other])) ?? [];
  if (name === undefined) return [];
  const overlapped = `${before.key}.${other}, "${before.site[other]}"`;
  return [{ key: `${key}.${name}`, says: `is "${site[name]}", which overlaps ${overlapped}. Use separate folders.` }];
}

/** `site.folders`: a name is a part of URLs, and a path is served whole. */
function servedFolderFaults({ key, site: { folders, hostname } }: Keyed, sites: readonly Keyed[]): Fault[] {
  return [
    ...faultsOf(`${key}.folders`, {
      "is set, and hostname is not, so pushgate serves nothing. Set hostname, or have your own web server serve them.":
        Object.keys(folders).length > 0 && hostname === undefined,
    }),
    ...Object.entries(folders).flatMap(([name, path]) => {
      const overlapped = sites.find(({ site }) => overlap(path, site.webRoot));
      const isFile = /\.(html?|txt|xml)$/i.test(name);
      return faultsOf(`${key}.folders.${name}`, {
        ...ownFolder(path),
        "has a name that is no part of a URL. Use letters from A to Z, digits and . _ -, such as downloads.":
          !/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/.test(name),
        "has the name of a file that builds make. Use another name, such as downloads.": isFile,
        [`is "${path}", which overlaps ${overlapped?.key}.webRoot. Use a folder beside it.`]: overlapped !== undefined,
      });
    }),
  ];
}

function previewFaults({ key, name, site }: Keyed, sites: readonly Keyed[], hooks: Parts["hooks"]): Fault[] {
  if (site.previews === undefined) return [];
  const [own, link] = [previewsName(name), previewsName(site.webRoot)];
  const pathsOf = ({ site }: Keyed) => [site.webRoot, site.content ?? site.webRoot, ...Object.values(site.folders)];
  const taken = sites.flatMap(pathsOf).find((path) => overlap(path, link));
  return faultsOf(`${key}.previews`, {
    [`have accounts named after ${own}, which is too long. Use a name of 23 characters at most for the hook.`]:
      own.length > 32,
    [`are built as ${own}, which is the name of another hook. Use another name for one of the hooks.`]: hooks.some(
      ({ name }) => name === own,
    ),
    [`have their link at ${link}, which overlaps ${taken}. Use another webRoot.`]: taken !== undefined,
  });
}

function knownHostsFaults({ key, repository, gitHost, site: { knownHosts } }: Keyed): Fault[] {
  if (otherGitHost({ repository, gitHost })) return [];
  const remote = repositoryOf(repository);
  const name = remote.port === 22 ? remote.host : `[${remote.host}]:${remote.port}`;
  if (!remote.ssh || knownHosts.some((line) => line.split(" ")[0]!.toLowerCase().split(",").includes(name))) return [];
  const wrong = knownHosts.length === 0 ? "is missing, and the repository is read over SSH" : `has no line for ${name}`;
  const scan = `ssh-keyscan ${remote.port === 22 ? "" : `-p ${remote.port} `}${remote.host}`;
  const compare = "compare them (ssh-keygen -lf) with the fingerprints that the git host publishes";
  return [{ key: `${key}.knownHosts`, says: `${wrong}. Add the lines that \`${scan}\` prints, and ${compare}.` }];
}

function egressFaults(range: string, key: string): Fault[] {
  const isAll = range.endsWith("/0");
  const isLocal = overlapCidr([...local], range);
  return faultsOf(key, {
    [`is "${range}", which opens every address. Use the git host's own address.`]: isAll,
    [`is "${range}", which covers the host itself or its cloud's metadata. Use the git host's own address.`]:
      isLocal && !isAll,
    [`is "${range}", which is on the internet. Remove it: a fetch reaches the internet without it.`]:
      !isAll && !isLocal && !containsCidr([...networks.notPublic.cidrs], range),
  });
}

/** One certificate of Cloudflare's Origin CA holds 200 hostnames: the host's own and those of all sites. */
const sitesPerCertificate = 199;

export function servingFaults({ zone, hosts, hooks }: Pick<Parts, "zone" | "hosts" | "hooks">): Fault[] {
  const sites = keyed(hooks).flatMap(({ key, site: { hostname, previews } }) => [
    ...(hostname === undefined ? [] : [{ key: `${key}.hostname`, hostname }]),
    ...(previews === undefined ? [] : [{ key: `${key}.previews.hostname`, hostname: previews.hostname }]),
  ]);
  if (sites.length === 0) return [];
  // A site's hostname leads to all hosts, and Cloudflare uses one port for a hostname.
  const [first, ...others] = hosts.filter(({ state }) => state !== "absent");
  return [
    ...sites.flatMap(({ key, hostname }) => {
      const outside = isOutside(hostname, zone);
      const host = hosts.find((other) => other.hostname === hostname);
      const before = sites.find((other) => other.hostname === hostname)!;
      return faultsOf(key, {
        [`is "${hostname}", which is not in the zone ${zone}. Use a name in it, such as www.${zone}.`]: outside,
        [`is "${hostname}", as is ${host?.at}.hostname, where all but hooks is blocked. Use another name.`]:
          host !== undefined,
        [`repeats ${before.key}, "${hostname}". Use a hostname for each site.`]: before.key !== key,
      });
    }),
    ...faultsOf("hooks", {
      [`has ${sites.length} sites to serve, and a host's certificate holds ${sitesPerCertificate}. Serve fewer sites.`]:
        sites.length > sitesPerCertificate,
    }),
    ...others.flatMap(({ at, originPort }) =>
      faultsOf(`${at}.originPort`, {
        [`is ${originPort}, and ${first!.at}.originPort is ${first!.originPort}, but Cloudflare reaches both hosts for ${sites[0]!.hostname} on one port. Use the same port.`]:
          originPort !== first!.originPort,
      }),
    ),
  ];
}
