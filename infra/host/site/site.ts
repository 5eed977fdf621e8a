/**
 * What is served: the web root of each site is a link to its current release, and only then do the units run that start
 * builds. A folder at the web root becomes the first release; when the site leaves, the link becomes a folder again.
 */
import type { HostLayer } from "../../apply/layer.ts";
import type { Probed } from "../../apply/manifest.ts";
import { call, quote } from "../../apply/shell.ts";
import { type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { accountsOf } from "../egress/egress.ts";
import { enabledAndActive, layerOf, textBeside } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";

/** More than a build's own limit: the first fetch has the whole history, and units start and stop. */
const fetchSeconds = 600;

const serve = ({ name, site: { webRoot, content = "", limits, keep } }: SiteHook): string =>
  `builder=${builderUser(name)}\n${call("serve", name, webRoot, content, String(limits.seconds + fetchSeconds), ...keep)}`;

/** Sites whose content is outside their repository. */
const withContent = (settings: Settings) =>
  sitesOf(settings).flatMap((hook) => {
    const { content } = hook.site;
    return content === undefined ? [] : [{ ...hook, content }];
  });

/** Folders of the operator's own that pushgate reads or replaces. */
export const operatorFolders = (settings: Settings): { readonly name: string; readonly path: string }[] => [
  ...sitesOf(settings).map(({ site: { webRoot } }) => ({ name: `web root ${webRoot}`, path: webRoot })),
  ...withContent(settings).map(({ content }) => ({ name: `content folder ${content}`, path: content })),
];

const question = (name: string, script: string, facts: Probed["facts"]): Probed => ({
  ...{ name, script, facts },
  files: [],
  owns: [],
});

/**
 * The probe's question for preflight: the folders above each of `operatorFolders` that other accounts can write. No fact of
 * the layer, as the operator may trust these accounts.
 */
export const folderQuestion = (settings: Settings): Probed =>
  question(
    "folders",
    textBeside(import.meta.url, "../others.sh"),
    operatorFolders(settings).map(({ path }) => ({ name: path, read: call("others_above", path) })),
  );

/** The schedules of sites, each once. */
export const schedulesOf = (settings: Settings): string[] => [
  ...new Set(sitesOf(settings).flatMap(({ site: { schedule } }) => schedule ?? [])),
];

/** The probe's question for preflight: what systemd prints for each of `schedulesOf`, with the host's time zones. */
export const scheduleQuestion = (settings: Settings): Probed =>
  question(
    "schedules",
    "",
    schedulesOf(settings).map((schedule) => ({
      name: schedule,
      read: `systemd-analyze calendar -- ${quote(schedule)} 2>&1 | sed -n 's/^ *Next elapse: *//p'`,
    })),
  );

export function siteLayer(settings: Settings): HostLayer {
  const sites = sitesOf(settings);
  const seconds = sites.reduce((sum, { site }) => sum + site.limits.seconds + fetchSeconds, 0);
  return layerOf(import.meta.url, "site", {
    values: {
      ...{ siteTarget: units.site("%i"), build: units.build("%i"), reconcile: units.reconcile("%i") },
      sites: paths.sites,
      rootRequests: paths.rootRequests,
      // A note for each site: its web root, and what was there before.
      notes: `${paths.state}/sites`,
      hooks: sites.map(({ name }) => name),
      accounts: accountsOf(sites),
      adoption: textBeside(import.meta.url, "adoption.cjs"),
    },
    shared: ["../apply/enter.sh", "accounts.sh"],
    // No globs: a published site cannot be rendered again. `retire` gives it back.
    activate: ["remove_others", ...sites.map(serve), 'remove_other_accounts "$accounts"'].join("\n"),
    facts: [
      // In the order of `operatorFolders`: preflight.ts reads them.
      ...sites.map(({ name, site: { webRoot } }) => ({
        name: `web root ${webRoot}`,
        read: call("web_root", name, webRoot),
        want: `leads to the current release of ${name}`,
      })),
      ...withContent(settings).map(({ name, content, site: { writers } }) => ({
        name: `content folder ${content}`,
        read: `hugo=${hugoUser(name)}\n${call("content", content, writers === undefined ? "--clear-groups" : `--groups=${writers}`)}`,
        want: "readable",
      })),
      ...sites.map(({ name }) => enabledAndActive(units.site(name))),
      { name: "build accounts of no site", read: 'other_accounts "$accounts" | grep . || echo none', want: "none" },
    ],
    // Before a folder becomes a release, the builder fetches and builds.
    timeout: 120 + seconds,
  });
}
