/**
 * What is served: the web root of each site is a link to its current release, and only then do the units run that start
 * builds. A folder at the web root becomes the first release; when the site leaves, the link becomes a folder again.
 */
import type { HostLayer } from "../../apply/layer.ts";
import type { SeenLayer } from "../../apply/report.ts";
import { quote } from "../../apply/shell.ts";
import { type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { enabledAndActive, layerScript, textBeside } from "../kit.ts";
import { builderUser, hugoUser, paths, units } from "../paths.ts";

/** More than a build's own limit: the first fetch has the whole history, and units start and stop. */
const fetchSeconds = 600;

const call = (name: string, ...words: string[]): string => [name, ...words.map(quote)].join(" ");

const serve = ({ name, site: { webRoot, content, limits, keep } }: SiteHook): string =>
  call("serve", name, webRoot, content, String(limits.seconds + fetchSeconds), ...keep);

/**
 * Before anything of the layer is on the host: what would stop an `up` midway, and what `up` is about to turn into a
 * release. Later the same facts are drift.
 */
export function siteFitness(settings: Settings, seen: SeenLayer | undefined): { faults: string[]; warnings: string[] } {
  const faults: string[] = [];
  const warnings: string[] = [];
  if (seen === undefined || seen.stamp !== undefined) return { faults, warnings };
  for (const [i, { site }] of sitesOf(settings).entries()) {
    const [root = "", content = ""] = [seen.facts[2 * i]?.output, seen.facts[2 * i + 1]?.output];
    if (content.startsWith("missing")) faults.push(`the content folder ${site.content} is ${content}.`);
    if (/^(a link|neither)/.test(root))
      faults.push(
        `the web root ${site.webRoot} is ${root}. Set \`site.webRoot\` to another path, or move what is there.`,
      );
    if (root.startsWith("a folder"))
      warnings.push(
        `the web root ${site.webRoot} is ${root}. If it holds files that the build does not make and \`site.keep\` does not name, \`up\` lists them and changes nothing.`,
      );
  }
  return { faults, warnings };
}

export function site(settings: Settings): HostLayer {
  const sites = sitesOf(settings);
  const seconds = sites.reduce((sum, { site }) => sum + site.limits.seconds + fetchSeconds, 0);
  return {
    name: "site",
    script: layerScript(import.meta.url, "site", {
      sites: paths.sites,
      requests: paths.requests,
      // A file for each site: its web root, and what was there before.
      records: `${paths.state}/sites`,
      state: paths.state,
      hooks: sites.map(({ name }) => name),
      builder: builderUser,
      hugo: hugoUser,
      adoption: textBeside(import.meta.url, "adoption.cjs"),
    }),
    files: [],
    // No globs: a published site cannot be rendered again. `retire` gives it back.
    owns: [],
    activate: ["remove_others", ...sites.map(serve)].join("\n"),
    facts: [
      // In this order: `siteFitness` reads them.
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
    retire: "retire",
    // Before a folder becomes a release, the builder fetches and builds.
    timeout: 120 + seconds,
  };
}
