/** Which addresses the accounts of each site reach: egress.sh. The layer makes the accounts, then loads the table. */
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { quote } from "../../apply/shell.ts";
import { isReported, reportPorts, type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { loopback, networks, v4, v6 } from "../../networks.ts";
import * as generator from "../builder/hugo.ts";
import { driftText, tableUnit } from "../firewall/firewall.ts";
import * as kit from "../kit.ts";
import { builderUser, fetcherUser, generatorUser, paths, reporterUser, units } from "../paths.ts";

const program = `${paths.lib}/egress` as const;

const listed = (values: readonly (string | number)[]): string => [...new Set(values)].join(", ");
const ascending = (ports: readonly number[]): string => listed(ports.toSorted((a, b) => a - b));

const nowhere = "/nonexistent";

/** The accounts of a site: what each runs, its home, and what it reaches beside its name servers. */
function accountsIn(hook: SiteHook) {
  const { name, repository, site } = hook;
  const also = [v4, v6].map((of) => listed(of(site.egress)));
  // The host of a theme, or a registry, is another one than the repository's.
  const ports = ascending([repositoryOf(repository).port, 443]);
  const web = generator.readsWeb(hook) ? "443" : "";
  const reported = [ascending(reportPorts(hook)), ...also];
  return [
    { runs: "builder", user: builderUser(name), home: paths.sites, reaches: [ports, ...also] },
    { runs: "generator", user: generatorUser(name), home: nowhere, reaches: [web, "", ""] },
    // The builder's relay is its way out.
    { runs: "fetcher", user: fetcherUser(name), home: nowhere, reaches: ["", "", ""] },
    ...(isReported(hook) ? [{ runs: "reporter", user: reporterUser(name), home: nowhere, reaches: reported }] : []),
  ].map((account) => ({ ...account, site: name }));
}

export const accountNames = (sites: readonly SiteHook[]): string[] => sites.flatMap(accountsIn).map(({ user }) => user);

export function egressLayer(settings: Settings) {
  const sites = sitesOf(settings);
  const accounts = sites.flatMap(accountsIn);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  const configuration = kit.template(import.meta.url, "egress.conf", {
    program,
    accounts: accounts.map(({ user, reaches }) => [user, ...reaches].join(";")).join("\n"),
    private4: listed(v4(closed)),
    private6: listed(v6(closed)),
    itself4: loopback.v4,
    itself6: loopback.v6,
  });
  const made = accounts.map(({ user, runs, site, home }) => `u ${user} - "pushgate ${runs} of ${site}" ${home}\n`);
  return kit.oneshotLayer(import.meta.url, "egress", {
    values: {
      ...{ unit: units.egress, needs: program, sysusers: paths.builderSysusers },
      homes: accounts.map(({ user, home }) => `${user}:${home}`),
    },
    files: [
      kit.file(paths.builderSysusers, `# "-": the host chooses the numbers of the accounts.\n${made.join("")}`),
      kit.file(paths.egress, configuration, { check: 'sh -n "$1"' }),
      kit.program(program, kit.textBeside(import.meta.url, "egress.sh"), { fixed: true }),
      tableUnit(units.egress, "network access of the build accounts", [paths.etc, paths.lib], program),
    ],
    facts: [
      {
        name: "table inet pushgate_egress",
        read: `"$needs" --print 2>/dev/null | sh -c ${quote(driftText)} - pushgate_egress -`,
        want: "as declared",
      },
      kit.enabledAndActive(units.egress),
      ...sites.map(({ name }) => {
        const own = accounts.filter(({ site }) => site === name);
        const homes = own.map(({ user, home }) => [user, home, user] as const);
        return kit.accountsFact(`the build accounts of ${name}`, homes);
      }),
    ],
  });
}
