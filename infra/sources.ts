/**
 * Source sets: the hooks grouped by the addresses that may deliver them. Each set has a socket, a loopback port and an
 * allowlist of its own, so that one git host's ranges do not open another git host's hook.
 */
import type { Hook, Settings } from "./settings.ts";

/** The first loopback port; set n listens on firstPort + n. Above the ports Debian's services use, below ephemeral. */
const firstPort = 9461;

export type SourceSet = {
  /** The git host's name where its ranges are published, else the first hook's: a unit name's part. */
  readonly name: string;
  /** On loopback only. */
  readonly port: number;
  readonly cidrs: readonly string[];
  readonly hooks: readonly Hook[];
};

/** In the order of the first hook of each set, so that a hook added at the end moves no port. */
export function sourceSets({ hooks }: Pick<Settings, "hooks">): SourceSet[] {
  const grouped = new Map<string, Hook[]>();
  for (const hook of hooks) {
    const key = hook.sources.join(" ");
    grouped.set(key, [...(grouped.get(key) ?? []), hook]);
  }
  return [...grouped.values()].map((members, index) => {
    const first = members[0]!;
    return {
      name: first.published ? first.gitHost : first.name,
      port: firstPort + index,
      cidrs: first.sources,
      hooks: members,
    };
  });
}
