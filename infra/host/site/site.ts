/**
 * What is served: the web root of each site is a link to its current release, and only then do the units run that start
 * builds. When the site leaves, the current release takes the link's place.
 */
import type { HostLayer } from "../../apply/layer.ts";
import type { Probed } from "../../apply/manifest.ts";
import { call, quote, variables } from "../../apply/shell.ts";
import { sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { accountsOf } from "../egress/egress.ts";
import { enabledAndActive, layerOf, textBeside } from "../kit.ts";
import { generatorUser, nginxUser, paths, units } from "../paths.ts";

/** The folders of the operator's own that sites use, with the call that prints whether each is fit (folders.sh). */
export const foldersOfSites = ({
  hooks,
}: Settings): { readonly key: string; readonly path: string; readonly read: string }[] =>
  hooks.flatMap(({ name, site }, i) => {
    if (site === undefined) return [];
    const { webRoot, content, folders, writers } = site;
    const key = `hooks[${i}].site`;
    const groups = writers === undefined ? "--clear-groups" : `--groups=${writers}`;
    return [
      { key: `${key}.webRoot`, path: webRoot, read: call("web_root", name, webRoot) },
      ...(content === undefined
        ? []
        : [
            {
              key: `${key}.content`,
              path: content,
              read: call("content_folder", content, generatorUser(name), groups),
            },
          ]),
      ...Object.entries(folders).map(([at, path]) => ({
        ...{ key: `${key}.folders.${at}`, path },
        read: call("served_folder", path, nginxUser),
      })),
    ];
  });

const question = (name: string, script: string, facts: Probed["facts"]): Probed => ({
  ...{ name, script, facts },
  files: [],
  owns: [],
});

/** The probe's question for preflight: whether each of `foldersOfSites` is fit. */
export const folderQuestion = (settings: Settings): Probed =>
  question(
    "folders",
    [
      variables({ sites: paths.sites }),
      ...["../others.sh", "folders.sh"].map((name) => textBeside(import.meta.url, name)),
    ].join("\n"),
    foldersOfSites(settings).map(({ path, read }) => ({ name: path, read })),
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
  return layerOf(import.meta.url, "site", {
    values: {
      ...{ siteTarget: units.site("%i"), build: units.build("%i"), reconcile: units.reconcile("%i") },
      sites: paths.sites,
      // A note for each site: its web root.
      notes: `${paths.state}/sites`,
      hooks: sites.map(({ name }) => name),
      accounts: accountsOf(sites),
    },
    shared: ["others.sh", "site/folders.sh", "accounts.sh"],
    // No globs: a published site cannot be rendered again. `retire` gives it back.
    activate: [
      "remove_others",
      ...sites.map(({ name, site: { webRoot } }) => call("serve", name, webRoot)),
      'remove_other_accounts "$accounts"',
    ].join("\n"),
    facts: [
      ...sites.map(({ name, site: { webRoot } }) => ({
        name: `web root ${webRoot}`,
        read: call("leads", name, webRoot),
        want: `leads to the current release of ${name}`,
      })),
      ...sites.map(({ name }) => enabledAndActive(units.site(name))),
      { name: "build accounts of no site", read: 'other_accounts "$accounts" | grep . || echo none', want: "none" },
    ],
    timeout: 120,
  });
}
