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

export const accountsOf = (sites: readonly SiteHook[]): string[] =>
  sites.flatMap((hook) => [
    ...[builderUser, generatorUser, fetcherUser].map((user) => user(hook.name)),
    ...reportersOf([hook]),
  ]);

const reportersOf = (sites: readonly SiteHook[]): string[] =>
  sites.filter(isReported).map(({ name }) => reporterUser(name));

const homesOf = (sites: readonly SiteHook[]): kit.Account[] =>
  accountsOf(sites).map((name) => [
    name,
    sites.some((hook) => name === builderUser(hook.name)) ? paths.sites : "/nonexistent",
    name,
  ]);

const sysusersOf = (hook: SiteHook): string =>
  kit.template(import.meta.url, "sysusers.conf", {
    ...{ hook: hook.name, builder: builderUser(hook.name), generator: generatorUser(hook.name), home: paths.sites },
    fetcher: fetcherUser(hook.name),
    reporter: reportersOf([hook]).map((user) => `u ${user} - "pushgate reporter of ${hook.name}" /nonexistent`),
  });

/** A line for each account of the site: what it reaches beside its name servers. */
function confined(hook: SiteHook): string[] {
  const { name, repository, site } = hook;
  // The host of a theme, or a registry, is another one than the repository's.
  const ports = [repositoryOf(repository).port, 443];
  const also = [v4, v6].map((of) => listed(of(site.egress)));
  return [
    [builderUser(name), ascending(ports), ...also],
    [generatorUser(name), generator.readsWeb(hook) ? 443 : "", "", ""],
    [fetcherUser(name), "", "", ""], // the builder's relay is its way out
    ...reportersOf([hook]).map((user) => [user, ascending(reportPorts(hook)), ...also]),
  ].map((words) => words.join(";"));
}

export function egressLayer(settings: Settings) {
  const sites = sitesOf(settings);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  const configuration = kit.template(import.meta.url, "egress.conf", {
    program,
    accounts: sites.flatMap(confined).join("\n"),
    private4: listed(v4(closed)),
    private6: listed(v6(closed)),
    itself4: loopback.v4,
    itself6: loopback.v6,
  });
  return kit.oneshotLayer(import.meta.url, "egress", {
    values: {
      ...{ unit: units.egress, needs: program, sysusers: paths.builderSysusers },
      homes: homesOf(sites).map(([name, home]) => `${name}:${home}`),
    },
    files: [
      kit.file(paths.builderSysusers, sites.map(sysusersOf).join("")),
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
      ...sites.map((hook) => kit.accountsFact(`the build accounts of ${hook.name}`, homesOf([hook]))),
    ],
  });
}
