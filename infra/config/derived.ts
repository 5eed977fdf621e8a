/** Values derived from the configuration, each in one place: Settings, sites, hostnames, source sets, repositories. */
import { createHash } from "node:crypto";
import { type GitHost, type GitHostName, gitHostNames, gitHosts, isWithin } from "../../service/git-hosts/index.ts";
import { publicDomains, repositoryOf } from "../../service/git-hosts/repository.ts";
import { webhookPath } from "../contract.ts";
import { type Network, networks } from "../networks.ts";
import { tidy } from "./cidr.ts";
import type { Config, Hook, Host, Settings, Site } from "./schema.ts";

/** The source ranges of git hosts that publish them. The others are self-hosted, and `sources` holds their ranges. */
export const published: Partial<Record<GitHostName, readonly string[]>> = Object.fromEntries(
  gitHostNames
    .filter((name) => gitHosts[name].publishedPort !== undefined)
    .map((name) => [name, (networks as Readonly<Record<string, Network>>)[`${name}Hooks`]!.cidrs]),
);

/** Each hook's ranges filled in, sorted, without overlaps. `withStatus`: hooks that have a token for results. */
export const settled = (config: Config, withStatus: readonly string[] = []): Settings => ({
  ...config,
  hooks: settledHooks(config.hooks, withStatus),
});

export const settledHooks = (hooks: Config["hooks"], withStatus: readonly string[] = []): Settings["hooks"] =>
  hooks.map(({ sources, ...hook }) => ({
    ...hook,
    ...(withStatus.includes(hook.name) && { setsStatus: true as const }),
    sources: published[hook.gitHost] ?? tidy(sources ?? []),
  }));

type Previews = NonNullable<Site["previews"]>;

/** `previews`: of a site of previews alone. */
export type SiteHook = Hook & { readonly site: Site; readonly previews?: Previews };

export const previewsName = (hook: string): string => `${hook}-previews`;

/**
 * With a site more for each that has `previews`: of the other branches of its repository, with accounts, units and bounds
 * of its own. The content outside, and what is of visitors and reports, is the first site's alone.
 */
export const withPreviews = <T extends Pick<Hook, "name"> & { readonly site?: Site | undefined }>(
  hooks: readonly T[],
): (T & Pick<SiteHook, "previews">)[] =>
  hooks.flatMap((hook) => {
    if (hook.site?.previews === undefined) return [hook];
    const { previews, content, writers, schedule, webRoot, ...site } = hook.site;
    const own = { webRoot: previewsName(webRoot), hostname: previews.hostname };
    const none = { folders: {}, assets: [], notify: [], purge: false };
    return [hook, { ...hook, name: previewsName(hook.name), previews, site: { ...site, ...own, ...none } }];
  });

export const sitesOf = ({ hooks }: Pick<Settings, "hooks">): SiteHook[] =>
  withPreviews(hooks).filter((hook): hook is SiteHook => hook.site !== undefined);

/** Whether results of builds leave the host: to the git host's API, to `site.notify`, or to Cloudflare's cache. */
export const isReported = ({ setsStatus, site: { notify, purge } }: SiteHook): boolean =>
  setsStatus === true || notify.length > 0 || purge;

/** The addresses of the recipient of a site that has `format: email`. */
export const mailOf = ({ site }: Pick<SiteHook, "site">): string[] =>
  site.notify.flatMap(({ format, url }) => (format === "email" ? url.replace("mailto:", "").split(",") : []));

/** Whether a recipient of `site.notify` has a secret. */
export const hasNotifySecret = ({ notify }: Pick<Site, "notify">): boolean =>
  notify.some(({ format }) => format !== "email");

export function reportPorts({ repository, setsStatus, site: { notify, purge } }: SiteHook): number[] {
  const { ssh, port } = repositoryOf(repository);
  const notified = notify.flatMap(({ url, format }) => (format === "email" ? [] : [Number(new URL(url).port || 443)]));
  return [...(setsStatus ? [ssh ? 443 : port] : []), ...notified, ...(purge ? [443] : [])];
}

export const servedSites = (settings: Pick<Settings, "hooks">) =>
  sitesOf(settings).flatMap(({ name: hook, previews, site: { hostname, webRoot, folders } }) =>
    hostname ? [{ hook, hostname, webRoot, isPreview: previews !== undefined, folders: Object.entries(folders) }] : [],
  );

export const namesOf = (settings: Pick<Settings, "hooks">, { hostname }: Pick<Host, "hostname">): string[] => [
  hostname,
  ...servedSites(settings).map((site) => site.hostname),
];

export const hookHostnames = ({ hosts }: Pick<Settings, "hosts">): string[] =>
  hosts.flatMap(({ hostname, state }) => (state === "absent" ? [] : [hostname])).sort();

/** Sorted; none where no host is left to serve them. */
export function siteHostnames(settings: Settings): string[] {
  const names = servedSites(settings).map(({ hostname }) => hostname);
  return hookHostnames(settings).length === 0 ? [] : names.sort();
}

export const allHostnames = (settings: Settings): string[] => [...hookHostnames(settings), ...siteHostnames(settings)];

/** Whether a name is outside of the zone; never where the zone itself is not known. */
export const isOutside = (hostname: string, zone: string): boolean => zone !== "" && !isWithin(hostname, zone);

export const webhookUrls = ({ hosts, hooks }: Pick<Settings, "hosts"> & { hooks: readonly Pick<Hook, "name">[] }) =>
  hooks.flatMap(({ name: hook }) =>
    hosts.flatMap(({ name: host, hostname, state }) =>
      state === "absent" ? [] : [{ hook, host, url: `https://${hostname}${webhookPath(hook)}` }],
    ),
  );

export function gitHostAt(repository: string): GitHostName | undefined {
  const { host } = repositoryOf(repository);
  const names = Object.keys(publicDomains) as (keyof typeof publicDomains)[];
  return names.find((name) => isWithin(host, publicDomains[name]));
}

export const knownGitHost = (gitHost: unknown): GitHost | undefined =>
  (gitHosts as Partial<Record<string, GitHost>>)[String(gitHost)];

/** The git host that delivers for the repository, where that is another one than `gitHost`. */
export function otherGitHost({ repository, gitHost }: { repository: string; gitHost: unknown }) {
  const known = knownGitHost(gitHost);
  const name = gitHostAt(repository) ?? known?.elsewhere;
  return known === undefined || known.anyRepository || name === known.name ? undefined : name;
}

/** Above the ports of Debian's services and of git hosts that publish their ranges, below the ephemeral ones. */
const firstOwnPort = 9470;
const ownPorts = 400;
/** The last port that a source set may have; the first is that of a git host that publishes its ranges. */
export const ownPortRange = { first: 9461, last: firstOwnPort + ownPorts - 1 } as const;

/** Hooks with the same source ranges: with a socket and an allowlist of their own, no range opens another set's hook. */
export type SourceSet = {
  readonly name: string; // in a unit's name: the git host where its ranges are published, else its first range, and a digest of several
  readonly port: number; // on loopback only
  readonly cidrs: readonly string[];
  readonly hooks: readonly Hook[];
};

const fnv1a = (text: string): number =>
  [...Buffer.from(text)].reduce((sum, byte) => Math.imul(sum ^ byte, 0x01000193) >>> 0, 0x811c9dc5);

/** By name, not by place: a port that moves to another set answers with 503 between two applies (measured). */
function portsOf(names: readonly string[]): Map<string, number> {
  const ports = new Map<string, number>();
  const taken = new Set<number>();
  for (const name of [...names].sort()) {
    let place = fnv1a(name) % ownPorts;
    while (taken.has(firstOwnPort + place)) place = (place + 1) % ownPorts;
    const port = knownGitHost(name)?.publishedPort ?? firstOwnPort + place;
    taken.add(port);
    ports.set(name, port);
  }
  return ports;
}

/** No hook's name is in it: a set keeps its socket whichever hook leaves, and that of a git host also with other ranges. */
function setName({ gitHost, sources }: Hook): string {
  if (published[gitHost]) return gitHost;
  const [text, first = ""] = [sources.join(" ").toLowerCase(), sources[0]?.toLowerCase()];
  const others = sources.length > 1 ? `_${createHash("sha256").update(text).digest("hex").slice(0, 8)}` : "";
  return first.replace("/", "-").replaceAll(":", "_") + others;
}

export function sourceSets({ hooks }: Pick<Settings, "hooks">): SourceSet[] {
  const named = Map.groupBy(hooks, setName);
  const ports = portsOf([...named.keys()]);
  return [...named].map(([name, hooks]) => ({ name, port: ports.get(name)!, cidrs: hooks[0]!.sources, hooks }));
}
