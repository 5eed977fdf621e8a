/**
 * Whom the rebuild may talk to, by account: the resolvers of this machine, the git hosts' ports on the internet, and
 * nobody else. The accounts are made here as well: nobody is to exist before the table that holds them.
 */
import { readFileSync } from "node:fs";
import type { HostLayer } from "../../apply/layer.ts";
import { quote } from "../../apply/manifest.ts";
import { remoteOf, sitesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { isV4, loopback, networks, v4, v6 } from "../../networks.ts";
import { driftText } from "../firewall/firewall.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { placing } from "../sandbox.ts";
import { forgetMissing } from "../unit-links.ts";

const script = `${paths.lib}/egress` as const;
const scriptText = readFileSync(new URL("egress.sh", import.meta.url), "utf8");

/** The port of what hugo may read, where any hook's `hugo.http` names something. */
const https = 443;

const listed = (values: readonly (string | number)[]): string => [...new Set(values)].join(", ");

function configurationText(settings: Pick<Settings, "hooks">): string {
  const sites = sitesOf(settings);
  const ports = sites.map(({ repository }) => remoteOf(repository).port).sort((a, b) => a - b);
  const also = sites.flatMap(({ site }) => site.egress);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  return `# Whom the rebuild may talk to; ${script} reads it as shell.
builder=${builderUser}
hugo=${hugoUser}
ports='${listed(ports)}'
hugo_ports='${sites.some(({ site }) => site.hugo.http.length > 0) ? https : ""}'
private4='${listed(v4(closed))}'
private6='${listed(v6(closed))}'
also4='${listed(also.filter(isV4))}'
also6='${listed(also.filter((range) => !isV4(range)))}'
itself4=${loopback.v4}
itself6=${loopback.v6}
`;
}

const sysusersText = `# The accounts' numbers are the machine's choice.
u ${builderUser} - "pushgate rebuild" ${paths.sites}
u ${hugoUser} - "pushgate hugo" /nonexistent
`;

const unitText = `[Unit]
Description=pushgate: whom the rebuild may talk to
# As ${units.firewall}: after what begins with \`flush ruleset\`, and with each of its starts and reloads.
DefaultDependencies=no
RequiresMountsFor=${paths.etc} ${paths.lib}
After=nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service
Wants=network-pre.target
Before=network-pre.target sysinit.target shutdown.target
Conflicts=shutdown.target
# It is restarted with nftables.service: where that happens six times in ten seconds a failed unit would be left.
StartLimitIntervalSec=0

[Service]
Type=oneshot
# No ExecStop: a stopped unit leaves the accounts confined.
RemainAfterExit=yes
ExecStart=${script}
ExecReload=${script}
${placing()}

[Install]
WantedBy=sysinit.target nftables.service
`;

const accounts = [builderUser, hugoUser];

export function egress(settings: Settings, _host: Host): HostLayer {
  const unit = `${paths.units}/${units.egress}` as const;
  const root = { owner: "root:root" } as const;
  return {
    name: "egress",
    files: [
      { path: paths.builderSysusers, text: sysusersText, mode: "0644", ...root },
      { path: paths.egress, text: configurationText(settings), mode: "0644", ...root, check: 'sh -n "$1"' },
      { path: script, text: scriptText, mode: "0755", ...root, check: 'sh -n "$1"' },
      { path: unit, text: unitText, mode: "0644", ...root },
    ],
    owns: [paths.builderSysusers, paths.egress, script, unit],
    activate: `systemd-sysusers ${paths.builderSysusers}
systemctl daemon-reload
systemctl enable --quiet ${units.egress}
systemctl restart ${units.egress} || {
  journalctl -u ${units.egress} -n 5 -o cat --no-pager >&2
  exit 1
}`,
    restore: `${forgetMissing(units.egress)}
if [ -x ${script} ]; then systemctl restart ${units.egress}; else
  nft delete table inet pushgate_egress 2>/dev/null || :
fi`,
    facts: [
      {
        name: "table inet pushgate_egress",
        read: `${script} --print 2>/dev/null | sh -c ${quote(driftText)} - pushgate_egress -`,
        want: "as declared",
      },
      { name: `${units.egress} at boot`, read: `systemctl is-enabled ${units.egress} 2>/dev/null`, want: "enabled" },
      { name: units.egress, read: `systemctl is-active ${units.egress}`, want: "active" },
      {
        name: "accounts of the rebuild",
        read: `id -nG ${builderUser} 2>/dev/null; id -nG ${hugoUser} 2>/dev/null`,
        want: accounts.join("\n"),
      },
    ],
    retire: `systemctl disable --now --quiet ${units.egress} 2>/dev/null
for account in ${accounts.join(" ")}; do
  ! id "$account" >/dev/null 2>&1 || userdel "$account" || exit 1
done
nft delete table inet pushgate_egress 2>/dev/null
:`,
    present: true,
    timeout: 60,
  };
}
