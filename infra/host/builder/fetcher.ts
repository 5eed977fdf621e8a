/**
 * The fetcher's unit, which brings what a build needs beside its repository. It sees the few files that name it, no clone and
 * no credential, and reaches registries by the builder's relay alone.
 */
import type { HostFile } from "../../apply/layer.ts";
import type { SiteHook } from "../../config/derived.ts";
import { bounds, ownRoot, sandbox, unitFile } from "../kit.ts";
import { fetcherUser, paths, runFolders, units } from "../paths.ts";
import { toolsOf } from "../tools/tools.ts";

/** The folder of the release of Node whose npm installs packages. */
export const nodeOf = ({ site }: Pick<SiteHook, "site">): string | undefined =>
  site.npm ? toolsOf(site).find(({ tool }) => tool === "node")?.folder : undefined;

export function fetcherService({ name, site }: SiteHook, settings: string, memoryMiB: number): HostFile {
  const node = nodeOf({ site });
  const { fetcherRoot, result } = runFolders(name);
  const values = {
    ...{ hook: name, target: units.site(name), program: paths.fetcher, settings, user: fetcherUser(name) },
    ...{ root: ownRoot(fetcherRoot), work: `${paths.sites}/${name}/work`, relay: paths.relay, result },
    node: node === undefined ? "" : `BindReadOnlyPaths=${node}`,
    bounds: bounds(site.limits, memoryMiB),
    sandbox: sandbox("node"),
  };
  return unitFile(import.meta.url, units.fetcher(name), values, "pushgate-fetcher@.service");
}
