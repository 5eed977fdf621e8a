/**
 * The state of a host that a removal must restore: equal before the first `up` and after the removal, except for the
 * folders that `up` reports as kept.
 */
import type { Host } from "./lab/host.ts";

export type HostState = Awaited<ReturnType<typeof hostState>>;

const commands = [
  // Transient units are sessions, which start and end at any time.
  "systemctl list-unit-files --no-legend --no-pager | grep -v transient",
  "systemctl list-units --all --plain --no-legend --no-pager 'pushgate*'",
  "systemctl list-units --failed --plain --no-legend --no-pager",
  "systemctl is-active nginx.service nftables.service systemd-networkd.service",
  // -s omits counters, which change with every packet.
  "nft -s list ruleset",
  "ip -4 rule",
  "ip -6 rule 2>&1",
  "ip -4 route show table all",
  "ip -6 route show table all 2>&1",
  "systemctl is-enabled nginx.service",
  "ss -Hltn | awk '{ print $4 }' | sort",
  "getent passwd",
  "getent group",
];

/** Skips the journal, which records every apply. */
const named = `find / -xdev \\( -path /proc -o -path /var/log/journal \\) -prune -o -name '*pushgate*' -print
find /run /sys/fs/cgroup -name '*pushgate*' 2>/dev/null`;

export async function hostState(host: Host) {
  const outputs = await Promise.all(
    commands.map(async (command) => [command, (await host.inside(command, { check: false })).stdout] as const),
  );
  const etc = await host.snapshot("/etc");
  // What the account tools keep of /etc/passwd and the others before a change.
  for (const name of ["passwd", "group", "shadow", "gshadow"]) delete etc[`${name}-`];
  return {
    etc,
    local: await host.snapshot("/usr/local"),
    /** Command -> its output. */
    outputs: Object.fromEntries(outputs) as Record<string, string>,
    /** Every path whose name contains "pushgate". */
    named: (await host.read(`{ ${named}; } | sort`)).split("\n").filter(Boolean),
  };
}
