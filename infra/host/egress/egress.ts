/**
 * Limits the network access of the two build accounts to the host's name servers and the git hosts' ports on the
 * internet. The layer makes the accounts, too: neither may exist before the table that limits it.
 */
import type { HostLayer } from "../../apply/layer.ts";
import { quote } from "../../apply/shell.ts";
import { remoteOf, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { isV4, loopback, networks, v4, v6 } from "../../networks.ts";
import { driftText } from "../firewall/firewall.ts";
import { enabledAndActive, file, layerScript, program, template, textBeside, unitFile } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { placing } from "../sandbox.ts";

const path = `${paths.lib}/egress` as const;

/** The port of the addresses that a build may read, where any hook's `hugo.http` names some. */
const https = 443;

const listed = (values: readonly (string | number)[]): string => [...new Set(values)].join(", ");

function configurationText(settings: Pick<Settings, "hooks">): string {
  const sites = sitesOf(settings);
  const ports = sites.map(({ repository }) => remoteOf(repository).port).sort((a, b) => a - b);
  const also = sites.flatMap(({ site }) => site.egress);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  return `# Network access of the build accounts; ${path} reads this file as shell.
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

const sysusersText = `# The host chooses the accounts' numbers.
u ${builderUser} - "pushgate builder" ${paths.sites}
u ${hugoUser} - "pushgate hugo" /nonexistent
`;

const accounts = [builderUser, hugoUser];

export function egress(settings: Settings): HostLayer {
  const unit = units.egress;
  const files = [
    file(paths.builderSysusers, sysusersText),
    file(paths.egress, configurationText(settings), { check: 'sh -n "$1"' }),
    program(path, textBeside(import.meta.url, "egress.sh")),
    unitFile(
      unit,
      template(import.meta.url, "pushgate-egress.service", {
        folders: [paths.etc, paths.lib],
        program: path,
        sandbox: placing(),
      }),
    ),
  ];
  return {
    name: "egress",
    script: layerScript(import.meta.url, "egress", {
      unit,
      program: path,
      sysusers: paths.builderSysusers,
      accounts,
    }),
    files,
    owns: files.map(({ path }) => path),
    activate: "activate",
    restore: "restore",
    facts: [
      {
        name: "table inet pushgate_egress",
        read: `"$program" --print 2>/dev/null | sh -c ${quote(driftText)} - pushgate_egress -`,
        want: "as declared",
      },
      enabledAndActive(unit),
      { name: "groups of the build accounts", read: "groups_of_accounts", want: accounts.join("\n") },
    ],
    retire: "retire",
    timeout: 60,
  };
}
