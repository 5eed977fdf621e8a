/** The web root of each site is a link to its current release, and only then do the units run that start builds. */
import { call, quote, variables } from "../../apply/shell.ts";
import { sitesOf, withPreviews } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { accountNames } from "../egress/egress.ts";
import { enabledAndActive, layerOf, question, textBeside } from "../kit.ts";
import { generatorUser, nginxUser, paths, units } from "../paths.ts";

/** The folders and groups of the operator's own that sites use, with the call that prints whether each is fit (folders.sh). */
export const foldersOfSites = ({ hooks }: Settings) =>
  withPreviews(hooks.map((hook, i) => ({ ...hook, i }))).flatMap(({ name, site, i }) => {
    if (site === undefined) return [];
    const { webRoot, content = "", folders, writers } = site;
    const groups = writers === undefined ? "--clear-groups" : `--groups=${writers}`;
    const folder = (key: string, path: string, ...of: [check: string, ...values: string[]]) => ({
      ...{ key: `hooks[${i}].site.${key}`, path },
      read: call(...of),
    });
    return [
      folder("webRoot", webRoot, "web_root", name, webRoot),
      ...(content === "" ? [] : [folder("content", content, "content_folder", content, generatorUser(name), groups)]),
      ...Object.entries(folders).map(([at, path]) => folder(`folders.${at}`, path, "served_folder", path, nginxUser)),
      ...(writers === undefined ? [] : [folder("writers", writers, "group", writers)]),
    ];
  });

export function folderQuestion(settings: Settings) {
  const scripts = ["../others.sh", "folders.sh"].map((name) => textBeside(import.meta.url, name));
  const facts = foldersOfSites(settings).map(({ path, read }) => ({ name: path, read }));
  return question("folders", [variables({ sites: paths.sites }), ...scripts].join("\n"), facts);
}

export const schedulesOf = (settings: Settings): string[] => [
  ...new Set(sitesOf(settings).flatMap(({ site: { schedule } }) => schedule ?? [])),
];

/** For preflight: what systemd prints for each of `schedulesOf`, with the host's time zones. */
export function scheduleQuestion(settings: Settings) {
  const next = (schedule: string) =>
    `systemd-analyze calendar -- ${quote(schedule)} 2>&1 | sed -n 's/^ *Next elapse: *//p'`;
  const facts = schedulesOf(settings).map((schedule) => ({ name: schedule, read: next(schedule) }));
  return question("schedules", "", facts);
}

export function siteLayer(settings: Settings) {
  const sites = sitesOf(settings);
  const webRoots = sites.map(({ name, site }) => [name, site.webRoot] as const);
  return layerOf(import.meta.url, "site", {
    values: {
      ...{ siteTarget: units.site("%i"), reconcile: units.reconcile("%i"), sites: paths.sites },
      // A note for each site: its web root.
      notes: `${paths.state}/sites`,
      hooks: sites.map(({ name }) => name),
      accounts: accountNames(sites),
    },
    shared: ["others.sh", "site/folders.sh"],
    // No globs: a published site cannot be rendered again. `retire` gives it back.
    activate: [
      "remove_others",
      ...webRoots.map((of) => call("serve", ...of)),
      'remove_other_accounts "$accounts"',
    ].join("\n"),
    facts: [
      ...webRoots.map(([name, webRoot]) => ({
        name: `the link ${webRoot} leads to`,
        read: call("link_of", name, webRoot),
        want: `${paths.sites}/${name}/current`,
      })),
      ...sites.map(({ name }) => enabledAndActive(units.site(name))),
      { name: "build accounts of no site", read: 'other_accounts "$accounts" | grep . || echo none', want: "none" },
    ],
    timeout: 120,
  });
}
