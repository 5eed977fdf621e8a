/**
 * Limits the network access of each site's accounts. On the internet, the builder reaches the git hosts' ports, and 443
 * for submodules; the reporter reaches the ports that results are sent to. Builder and reporter also reach name servers
 * and `site.egress`. The generator reaches nothing, or name servers and port 443 where a site reads web addresses. The layer makes the
 * accounts, then loads the table; the builder layer, whose units use the accounts, comes later.
 */
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import type { HostLayer } from "../../apply/layer.ts";
import { call, quote } from "../../apply/shell.ts";
import { isReported, reportPorts, type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { isV4, loopback, networks, v4, v6 } from "../../networks.ts";
import { readsWeb } from "../builder/hugo.ts";
import { driftText } from "../firewall/firewall.ts";
import { enabledAndActive, file, oneshotLayer, program, template, textBeside, unitFile } from "../kit.ts";
import { builderUser, generatorUser, paths, reporterUser, units } from "../paths.ts";
import { oneshotSandbox } from "../sandbox.ts";

const path = `${paths.lib}/egress` as const;

const listed = (values: readonly (string | number)[]): string => [...new Set(values)].join(", ");

/** Of each site: its builder's, its generator's, and its reporter's if its results leave the host. */
export const accountsOf = (sites: readonly SiteHook[]): string[] =>
  sites.flatMap((hook) => [builderUser(hook.name), generatorUser(hook.name), ...reportersOf([hook])]);

const reportersOf = (sites: readonly SiteHook[]): string[] =>
  sites.filter(isReported).map(({ name }) => reporterUser(name));

export function egressLayer(settings: Settings): HostLayer {
  const unit = units.egress;
  const sites = sitesOf(settings);
  const ports = sites.flatMap(({ repository, site: { submodules } }) => [
    repositoryOf(repository).port,
    // A theme's host is another one than the repository's.
    ...(submodules ? [443] : []),
  ]);
  const also = sites.flatMap(({ site }) => site.egress);
  const closed = [...networks.notPublic.cidrs, ...networks.azurePlatform.cidrs];
  const configuration = template(import.meta.url, "egress.conf", {
    program: path,
    builders: sites.map(({ name }) => builderUser(name)),
    generators: sites.map(({ name }) => generatorUser(name)),
    reporters: reportersOf(sites),
    reportPorts: listed(sites.flatMap(reportPorts).sort((a, b) => a - b)),
    ports: listed(ports.sort((a, b) => a - b)),
    generatorPorts: sites.some(readsWeb) ? 443 : "",
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
      sites
        .map((hook) => {
          const { name } = hook;
          const [reporter] = reportersOf([hook]);
          return template(import.meta.url, "sysusers.conf", {
            ...{ hook: name, builder: builderUser(name), generator: generatorUser(name), home: paths.sites },
            reporter: reporter === undefined ? "" : `u ${reporter} - "pushgate reporter of ${name}" /nonexistent`,
          });
        })
        .join(""),
    ),
    file(paths.egress, configuration, { check: 'sh -n "$1"' }),
    program(path, textBeside(import.meta.url, "egress.sh")),
    unitFile(import.meta.url, unit, { folders: [paths.etc, paths.lib], program: path, sandbox: oneshotSandbox() }),
  ];
  return oneshotLayer(import.meta.url, "egress", {
    values: { unit, needs: path, sysusers: paths.builderSysusers },
    shared: ["accounts.sh"],
    files,
    facts: [
      {
        name: "table inet pushgate_egress",
        read: `"$needs" --print 2>/dev/null | sh -c ${quote(driftText)} - pushgate_egress -`,
        want: "as declared",
      },
      enabledAndActive(unit),
      ...sites.map((hook) => {
        const accounts = accountsOf([hook]);
        const name = `groups of the build accounts of ${hook.name}`;
        return { name, read: call("groups_of", ...accounts), want: accounts.join("\n") };
      }),
    ],
  });
}
