/**
 * What of a machine a removal has to give back, read in one go: equal before the first `up` and after the removal, but
 * for what `up` says it keeps.
 */
import type { Host } from "./lab/host.ts";

export type Traces = {
  /** Path -> mode, owner, content. */
  readonly etc: Record<string, string>;
  readonly local: Record<string, string>;
  /** By the command that prints it. */
  readonly says: Record<string, string>;
  /** Anything that bears our name, wherever it lies. */
  readonly named: readonly string[];
};

const asked = [
  // Sessions come and go.
  "systemctl list-unit-files --no-legend --no-pager | grep -v transient",
  "systemctl list-units --all --plain --no-legend --no-pager 'pushgate*'",
  "systemctl list-units --failed --plain --no-legend --no-pager",
  "systemctl is-active nginx.service nftables.service systemd-networkd.service",
  // -s: counters go on counting.
  "nft -s list ruleset",
  "ip -4 rule",
  "ip -6 rule 2>&1",
  "ip -4 route show table all",
  "ip -6 route show table all 2>&1",
  "nginx -T 2>/dev/null",
  "ss -Hltn | awk '{ print $4 }' | sort",
  "getent passwd",
  "getent group",
];

/** The journal's and this boot's own records of what was done are no traces. */
const named = `find / -xdev \\( -path /proc -o -path /var/log/journal \\) -prune -o -name '*pushgate*' -print
find /run /sys/fs/cgroup -name '*pushgate*' 2>/dev/null`;

export async function traces(host: Host): Promise<Traces> {
  const says = await Promise.all(
    asked.map(async (command) => [command, (await host.inside(command, { check: false })).stdout] as const),
  );
  return {
    etc: await host.snapshotEtc(),
    local: await host.snapshot("/usr/local"),
    says: Object.fromEntries(says),
    named: (await host.read(`{ ${named}; } | sort`)).split("\n").filter(Boolean),
  };
}
