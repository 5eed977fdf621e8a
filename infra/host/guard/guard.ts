/**
 * The guard: at boot and every minute it puts back our table and our routing rule where a neighbour removed them
 * (`flush ruleset` of nftables.service, networkd, a VPN), then proves the allowlist by connecting. A kernel without BPF,
 * or a parent slice's list, opens the sockets in silence; only a connection shows it.
 */
import { readFileSync } from "node:fs";
import type { HostLayer } from "../../apply/layer.ts";
import { contains, parse } from "../../config/cidr.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { sourceSets } from "../../config/source-sets.ts";
import { isV4, loopback, networks, stranger, v4, v6 } from "../../networks.ts";
import { paths, units } from "../paths.ts";
import { forgetMissing } from "../unit-links.ts";

const file = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");

const guardScript = `${paths.lib}/guard` as const;
const proberScript = `${paths.lib}/prober` as const;
export const guardConfiguration = `${paths.etc}/guard.conf` as const;
const runtime = "/run/pushgate-guard";

/**
 * Sources that no socket may admit: nobody, this machine, and the edge itself, whose address the proxy would connect
 * from if a visitor's were missing. One that a hook's own sources cover is left out.
 */
export function strangers(settings: Pick<Settings, "hooks">): string[] {
  const edge = [v4(networks.cloudflare.cidrs), v6(networks.cloudflare.cidrs)].map((cidrs) => cidrs[0]!.split("/")[0]!);
  const admitted = sourceSets(settings).flatMap(({ cidrs }) => cidrs.map(parse));
  return [stranger.v4, stranger.v6, loopback.v4, loopback.v6, ...edge]
    .filter((address) => !admitted.some((range) => contains(range, parse(address))))
    .sort((a, b) => Number(isV4(b)) - Number(isV4(a)));
}

const configurationText = (
  settings: Settings,
): string => `# What the guard needs to know; ${guardScript} reads it as shell.
strangers='${strangers(settings).join(" ")}'
ports='${sourceSets(settings)
  .map(({ port }) => port)
  .join(", ")}'
table=${paths.nftables}
receiver=${units.receiver}
`;

const serviceText = `[Unit]
Description=pushgate: prove that only the declared sources reach the receiver
After=nftables.service systemd-networkd.service ${units.firewall} ${units.routing} sockets.target
# Neighbours that are started six times in ten seconds start it as often: a run refused is a table left flushed, or a
# socket left closed, for a minute.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=${guardScript}
# With systemd 257 a changed address list of a running socket is in force once a unit starts in the same slice.
Slice=pushgate.slice
# Three probes of a socket take 6 s; a run that hangs is a failure, not a reason to skip the next.
TimeoutStartSec=30
# Each range is probed from four addresses at once.
LimitNOFILE=16384
SyslogIdentifier=pushgate-guard
RuntimeDirectory=pushgate-guard
# What was closed, and why, outlives the run.
RuntimeDirectoryPreserve=yes
# NET_ADMIN: table, rule, transparent binds. SYS_ADMIN: the throwaway namespace the declared table is listed in.
CapabilityBoundingSet=CAP_NET_ADMIN CAP_SYS_ADMIN
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictNamespaces=net
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
# The neighbours that flush tables and delete rules: whenever one of them is started, the guard runs right after it.
WantedBy=multi-user.target nftables.service systemd-networkd.service
`;

const timerText = `[Unit]
Description=pushgate: prove the receiver's allowlist every minute

[Timer]
OnCalendar=minutely
AccuracySec=1s

[Install]
WantedBy=timers.target
`;

export function guard(settings: Settings, _host: Host): HostLayer {
  const service = `${paths.units}/${units.guard}` as const;
  const timer = `${paths.units}/${units.guardTimer}` as const;
  const both = `${units.guard} ${units.guardTimer}`;
  const root = { owner: "root:root" } as const;
  return {
    name: "guard",
    files: [
      { path: guardConfiguration, text: configurationText(settings), mode: "0644", ...root, check: 'sh -n "$1"' },
      { path: guardScript, text: file("guard.sh"), mode: "0755", ...root, check: 'sh -n "$1"' },
      { path: proberScript, text: file("prober.pl"), mode: "0755", ...root, check: 'perl -c "$1"' },
      { path: service, text: serviceText, mode: "0644", ...root },
      { path: timer, text: timerText, mode: "0644", ...root },
    ],
    owns: [guardConfiguration, guardScript, proberScript, service, timer],
    // The proof is part of the apply: a machine that cannot enforce the allowlist fails here, with the guard's words.
    activate: `systemctl daemon-reload
systemctl enable --quiet ${both}
systemctl restart ${units.guardTimer}
systemctl start ${units.guard} || {
  cat ${runtime}/verdict >&2
  exit 1
}`,
    restore: `${forgetMissing(units.guardTimer, units.guard)}
if [ -x ${guardScript} ]; then
  systemctl start ${units.guard}
else
  # Nobody will watch any more, so a reboot must not open what was just found open to strangers.
  [ ! -s ${runtime}/closed ] || xargs -r systemctl disable --quiet <${runtime}/closed
  rm -rf ${runtime}
fi`,
    facts: [
      {
        name: `${units.guardTimer} at boot`,
        read: `systemctl is-enabled ${units.guardTimer} 2>/dev/null`,
        want: "enabled",
      },
      { name: units.guardTimer, read: `systemctl is-active ${units.guardTimer}`, want: "active" },
      { name: `${units.guard} at boot`, read: `systemctl is-enabled ${units.guard} 2>/dev/null`, want: "enabled" },
      {
        name: "the allowlist",
        read: `verdict=$(cat ${runtime}/verdict 2>/dev/null || echo "the guard has not run")
[ "$verdict" != proven ] || [ "$(systemctl show -p Result --value ${units.guard})" = success ] || verdict="the guard's last run did not end"
echo "$verdict"`,
        want: "proven",
      },
    ],
    retire: `systemctl disable --now --quiet ${both} 2>/dev/null
systemctl reset-failed ${units.guard} 2>/dev/null
nft delete table inet pushgate_trial 2>/dev/null
rm -rf ${runtime}`,
    present: true,
    timeout: 120,
  };
}
