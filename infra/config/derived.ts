/**
 * Values derived from the configuration, each in one place: Settings, sites, hostnames, source sets, repositories. Pure
 * functions, which take only the part of the settings that they need.
 */
import { type GitHost as GitHostFacts, gitHostNames, gitHosts } from "../../service/git-hosts/index.ts";
import { type Network, networks } from "../networks.ts";
import { tidy } from "./cidr.ts";
import type { Config, GitHost, Hook, Host, Settings, Site } from "./schema.ts";

/** Git hosts that publish their source ranges. The others are self-hosted, and `sources` holds their ranges. */
export const published: Partial<Record<GitHost, readonly string[]>> = Object.fromEntries(
  gitHostNames
    .filter((name) => gitHosts[name].publishedPort !== undefined)
    .map((name) => [name, (networks as Readonly<Record<string, Network>>)[`${name}Hooks`]!.cidrs]),
);

/** Checked configuration -> Settings: each hook's ranges filled in, sorted, without overlaps. */
export const settled = ({ hooks, ...config }: Config): Settings => ({
  ...config,
  hooks: hooks.map(({ sources, ...hook }) => ({
    ...hook,
    published: published[hook.gitHost] !== undefined,
    sources: published[hook.gitHost] ?? tidy(sources ?? []),
  })),
});

type Declared = Pick<Settings, "hosts" | "hooks">;

export type SiteHook = Hook & { readonly site: Site };

/** The hooks whose pushes become a site: the builder's layers exist for these. */
export const sitesOf = ({ hooks }: Pick<Settings, "hooks">): SiteHook[] =>
  hooks.filter((hook): hook is SiteHook => hook.site !== undefined);

export type ServedSite = {
  readonly hook: string;
  readonly hostname: string;
  /** Leads to the current release. */
  readonly webRoot: string;
};

/** The sites that pushgate serves, too, in the order of their hooks. Every host serves each. */
export const servedSites = (settings: Pick<Settings, "hooks">): ServedSite[] =>
  sitesOf(settings).flatMap(({ name, site: { hostname, webRoot } }) =>
    hostname === undefined ? [] : [{ hook: name, hostname, webRoot }],
  );

/** All names that a host answers to on its origin port, that for hooks first. */
export const namesOf = (settings: Pick<Settings, "hooks">, { hostname }: Pick<Host, "hostname">): string[] => [
  hostname,
  ...servedSites(settings).map((site) => site.hostname),
];

/** Hostnames for hooks, sorted, without those of absent hosts. */
export const hostnames = ({ hosts }: Pick<Settings, "hosts">): string[] =>
  hosts
    .filter(({ state }) => state !== "absent")
    .map(({ hostname }) => hostname)
    .sort();

/** Hostnames of served sites, sorted; none where no host is left to serve them. */
export const siteHostnames = ({ hosts, hooks }: Declared): string[] =>
  hostnames({ hosts }).length === 0
    ? []
    : servedSites({ hooks })
        .map(({ hostname }) => hostname)
        .sort();

/** Every hostname of the zone that leads to an origin port: for hooks first, then the sites. */
export const allHostnames = (settings: Declared): string[] => [...hostnames(settings), ...siteHostnames(settings)];

/** A set in Cloudflare's rules language: `{"a" "b"}`. Hostnames and hook names need no escaping. */
export const set = (values: readonly string[]): string => `{${values.map((value) => `"${value}"`).join(" ")}}`;

export type Remote = { readonly ssh: boolean; readonly host: string; readonly port: number };

const ports = { https: 443, ssh: 22 } as const;

/** Parses a repository's address that schema.ts accepted: `https://…`, `ssh://user@host…`, or `user@host:path`. */
export function remoteOf(repository: string): Remote {
  const [, scheme, host = "", port] = /^(https|ssh):\/\/(?:[^@/]*@)?([^/:]+)(?::(\d+))?\//.exec(repository) ?? [];
  if (scheme === "https" || scheme === "ssh")
    return { ssh: scheme === "ssh", host, port: port === undefined ? ports[scheme] : Number(port) };
  return { ssh: true, host: /@([^:]+):/.exec(repository)?.[1] ?? "", port: ports.ssh };
}

/** The name of a repository's host in ssh's known_hosts. */
export const knownAs = ({ host, port }: Remote): string => (port === ports.ssh ? host : `[${host}]:${port}`);

/** Above the ports Debian's services use and those of git hosts that publish their ranges, below the ephemeral ones. */
const firstOwnPort = 9470;
const ownPorts = 400;

/**
 * Hooks with the same source ranges. Each set has a socket, a loopback port and an allowlist of its own, so that one
 * git host's ranges do not open another git host's hook.
 */
export type SourceSet = {
  /** The git host's name where its ranges are published, else the first hook's: a unit name's part. */
  readonly name: string;
  /** On loopback only. */
  readonly port: number;
  readonly cidrs: readonly string[];
  readonly hooks: readonly Hook[];
};

/** FNV-1a, 32 bits: spreads short names well, and is the same everywhere. */
const hash = (text: string): number =>
  [...Buffer.from(text)].reduce((sum, byte) => Math.imul(sum ^ byte, 0x01000193) >>> 0, 0x811c9dc5);

/**
 * A set's port comes from its name, not from its place: receiver and proxy are applied one after the other, and in
 * between a port that moved to another set answers its deliveries with 503 (18 of them, measured). Of two names with
 * one hash the later in the alphabet takes the next port.
 */
function portsOf(names: readonly string[]): Map<string, number> {
  const ports = new Map<string, number>();
  const taken = new Set<number>();
  for (const name of [...names].sort()) {
    const fixed = (gitHosts as Partial<Record<string, GitHostFacts>>)[name]?.publishedPort;
    let place = hash(name) % ownPorts;
    while (taken.has(firstOwnPort + place)) place = (place + 1) % ownPorts;
    const port = fixed ?? firstOwnPort + place;
    taken.add(port);
    ports.set(name, port);
  }
  return ports;
}

/** In the order of the first hook of each set. */
export function sourceSets({ hooks }: Pick<Settings, "hooks">): SourceSet[] {
  const grouped = [...Map.groupBy(hooks, ({ sources }) => sources.join(" ")).values()];
  const named = grouped.map((members) => {
    const { published, gitHost, name, sources } = members[0]!;
    return { name: published ? gitHost : name, cidrs: sources, hooks: members };
  });
  const ports = portsOf(named.map(({ name }) => name));
  return named.map((set) => ({ ...set, port: ports.get(set.name)! }));
}
