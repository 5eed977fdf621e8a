/**
 * What is served: the web root of each site is a link to its current release, and only then do the units run that start
 * builds. A folder at the web root becomes the first release; when the site leaves, the link becomes a folder again.
 */
import type { HostLayer } from "../../apply/layer.ts";
import { call } from "../../apply/shell.ts";
import { type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { enabledAndActive, layerOf, textBeside } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";

/** More than a build's own limit: the first fetch has the whole history, and units start and stop. */
const fetchSeconds = 600;

const serve = ({ name, site: { webRoot, content, limits, keep } }: SiteHook): string =>
  call("serve", name, webRoot, content, String(limits.seconds + fetchSeconds), ...keep);

export function siteLayer(settings: Settings): HostLayer {
  const sites = sitesOf(settings);
  const seconds = sites.reduce((sum, { site }) => sum + site.limits.seconds + fetchSeconds, 0);
  return layerOf(import.meta.url, "site", {
    values: {
      sites: paths.sites,
      requests: paths.requests,
      // A file for each site: its web root, and what was there before.
      records: `${paths.state}/sites`,
      hooks: sites.map(({ name }) => name),
      builder: builderUser,
      hugo: hugoUser,
      adoption: textBeside(import.meta.url, "adoption.cjs"),
    },
    // No globs: a published site cannot be rendered again. `retire` gives it back.
    activate: ["remove_others", ...sites.map(serve)].join("\n"),
    facts: [
      // In this order: preflight.ts reads them.
      ...sites.flatMap(({ name, site: { webRoot, content, writers } }) => [
        {
          name: `web root ${webRoot}`,
          read: call("web_root", name, webRoot),
          want: `leads to the current release of ${name}`,
        },
        {
          name: `content folder ${content}`,
          read: call("content", content, writers === undefined ? "--clear-groups" : `--groups=${writers}`),
          want: "readable",
        },
      ]),
      ...sites.flatMap(({ name }) => [units.buildPath(name), units.reconcileTimer(name)]).map(enabledAndActive),
    ],
    // Before a folder becomes a release, the builder fetches and builds.
    timeout: 120 + seconds,
  });
}
