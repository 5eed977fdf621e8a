/** The builder's folders on a host, with mode and owner. */
import { isReported, type SiteHook } from "../../config/derived.ts";
import type { Folder } from "../kit.ts";
import { builderUser, paths, reporterUser } from "../paths.ts";
import { generatorResults, generatorRoot } from "./generator.ts";

const { requests, rootRequests, reports, sites: sitesFolder, generator } = paths;

export const commonFolders = (sites: readonly SiteHook[]): Folder[] =>
  [
    ...[requests, rootRequests, sitesFolder, generator, generatorRoot, generatorResults],
    ...(sites.some(isReported) ? [reports] : []),
  ].map((path) => [path, "755", "root:root"]);

/**
 * A member of the group `site.writers` requests a build by making a file, and cannot list the folder; without the group
 * only root and the builder can. Root's requests have a folder of their own: the builder removes them, no member enters.
 */
export function foldersOf(hook: SiteHook): Folder[] {
  const { name, site } = hook;
  const builder = builderUser(name);
  const owner = `${builder}:${builder}`;
  return [
    site.writers === undefined
      ? [`${requests}/${name}`, "700", owner]
      : [`${requests}/${name}`, "1730", `${builder}:${site.writers}`],
    [`${rootRequests}/${name}`, "770", `root:${builder}`],
    [`${sitesFolder}/${name}`, "755", owner],
    [`${sitesFolder}/${name}/work`, "700", owner],
    // Root writes there how a build ended.
    [`${generatorResults}/${name}`, "755", "root:root"],
    ...(isReported(hook) ? ([[`${reports}/${name}`, "770", `${builder}:${reporterUser(name)}`]] as const) : []),
  ];
}
