/**
 * Source sets: the hooks grouped by the addresses that may deliver them. Each set has a socket, a loopback port and an
 * allowlist of its own, so that one git host's ranges do not open another git host's hook.
 */
import type { Hook, Settings } from "./settings.ts";

/** Above the ports Debian's services use, below the ephemeral ones. */
const publishedPorts = { github: 9461, gitlab: 9462, bitbucket: 9463 } as const;
const firstOwnPort = 9470;
const ownPorts = 400;

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
    const fixed = publishedPorts[name as keyof typeof publishedPorts];
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
