/** The reporter of a site whose results leave the host: its account alone has the token (decision 027). */
import type { ReporterSettings } from "../../../service/reporter/settings.ts";
import type { HostFile } from "../../apply/layer.ts";
import { hasNotifySecret, mailOf, type SiteHook } from "../../config/derived.ts";
import type { Host } from "../../config/settings.ts";
import { vendorUrl } from "../../contract.ts";
import { instanceFile, jsonFile, sandbox, unitFile } from "../kit.ts";
import { notifyTest, paths, reporterSettingsPath, reporterUser, runFolders, units } from "../paths.ts";
import { loadCredential } from "../secrets/secrets.ts";
import { socketUnit } from "./generator.ts";

/** What `service/reporter` reads. Each host sets a result of its own: a site may be built on one and fail on another. */
function reporterSettings(hook: SiteHook, host: Pick<Host, "name">, zoneId: string): ReporterSettings {
  const { name, gitHost, repository, setsStatus, site } = hook;
  const { hostname, notify, purge } = site;
  return {
    hook: name,
    folder: `${paths.reports}/${name}`,
    ...(hostname !== undefined && { site: `https://${hostname}/` }),
    ...(setsStatus && { status: { gitHost, repository, context: `pushgate/${host.name}/${name}` } }),
    notify: notify.map(({ name: to, url, format }) => ({
      ...{ name: to, url, format },
      ...(format === "email" && { socket: runFolders(name).mail }),
    })),
    ...(purge && { purge: `${vendorUrl}/zones/${zoneId}/purge_cache` }),
  };
}

export function reporterTemplates(): HostFile[] {
  const { reports } = paths;
  const target = units.site("%i");
  const started = { target, starts: "the reporter of %i for results of builds", folder: reports };
  return [
    unitFile(import.meta.url, units.reportPath(), started, units.buildPath()),
    unitFile(import.meta.url, units.report(), {
      ...{ target, reports, egress: units.egress, egressProgram: `${paths.lib}/egress` },
      ...{ program: paths.reporter, settings: reporterSettingsPath("%i"), test: notifyTest("%i") },
      closed: [paths.sites, paths.spool, paths.requests, paths.rootRequests].map((path) => `-${path}`),
      sandbox: sandbox("node"),
    }),
  ];
}

export const reporterFiles = (hook: SiteHook, host: Pick<Host, "name">, zoneId: string): HostFile[] => [
  jsonFile(reporterSettingsPath(hook.name), reporterSettings(hook, host, zoneId)),
  ...instanceFile(units.report(hook.name), [
    "[Service]",
    `User=${reporterUser(hook.name)}`,
    "# systemd gives these credentials to this unit alone. Neither the builder's account nor the generator's can read them.",
    ...(hook.setsStatus ? [loadCredential(hook.name, "status")] : []),
    ...(hasNotifySecret(hook.site) ? [loadCredential(hook.name, "notify")] : []),
    ...(hook.site.purge ? [loadCredential(hook.name, "purge")] : []),
  ]),
  ...mailFiles(hook),
];

/** sendmail is setuid or setgid in most packages, so it cannot run in the reporter's sandbox. */
function mailFiles(hook: SiteHook): HostFile[] {
  const { name } = hook;
  const addresses = mailOf(hook);
  if (addresses.length === 0) return [];
  const user = reporterUser(name);
  const { etc, sites, spool, reports, requests, rootRequests, state } = paths;
  const closed = [etc, state, sites, spool, reports, requests, rootRequests, "/run/credentials"];
  const socket = { does: "passes reports to the host's sendmail", socket: runFolders(name).mail, user, most: 4 };
  const service = { hook: name, addresses, user, closed: closed.map((path) => `-${path}`) };
  return [
    socketUnit(name, units.mailSocket(name), socket),
    unitFile(import.meta.url, units.mail(name), service, "pushgate-mail@.service"),
  ];
}
