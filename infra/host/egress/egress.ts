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
import { enabledAndActive, file, oneshotLayer, program, template, textBeside, unitFile } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";
import { oneshotSandbox } from "../sandbox.ts";

const path = `${paths.lib}/egress` as const;

const listed = (values: readonly (string | number)[]): string => [...new Set(values)].join(", ");

const accounts = [builderUser, hugoUser];

export function egressLayer(settings: Settings): HostLayer {
  const unit = units.egress;
  const sites = sitesOf(settings);
  const ports = sites.map(({ repository }) => remoteOf(repository).port).sort((a, b) => a - b);
  const also = sites.flatMap(({ site }) => site.egress);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  const configuration = template(import.meta.url, "egress.conf", {
    program: path,
    builder: builderUser,
    hugo: hugoUser,
    ports: listed(ports),
    hugoPorts: sites.some(({ site }) => site.hugo.http.length > 0) ? 443 : "",
    private4: listed(v4(closed)),
    private6: listed(v6(closed)),
    also4: listed(also.filter(isV4)),
    also6: listed(also.filter((range) => !isV4(range))),
    itself4: loopback.v4,
    itself6: loopback.v6,
  });
  const files = [
    file(
      paths.builderSysusers,
      template(import.meta.url, "sysusers.conf", { builder: builderUser, hugo: hugoUser, home: paths.sites }),
    ),
    file(paths.egress, configuration, { check: 'sh -n "$1"' }),
    program(path, textBeside(import.meta.url, "egress.sh")),
    unitFile(import.meta.url, unit, { folders: [paths.etc, paths.lib], program: path, sandbox: oneshotSandbox() }),
  ];
  return oneshotLayer(import.meta.url, "egress", {
    values: { unit, needs: path, sysusers: paths.builderSysusers, accounts },
    files,
    activate: "activate",
    retire: "retire",
    facts: [
      {
        name: "table inet pushgate_egress",
        read: `"$needs" --print 2>/dev/null | sh -c ${quote(driftText)} - pushgate_egress -`,
        want: "as declared",
      },
      enabledAndActive(unit),
      { name: "groups of the build accounts", read: "groups_of_accounts", want: accounts.join("\n") },
    ],
  });
}
