/**
 * The fetcher's unit, which brings what a build needs beside its repository. It sees the few files that name it, no clone and
 * no credential, and reaches registries by the builder's relay alone. A connection to its socket starts it, as the
 * generator's.
 */
import type { HostFile } from "../../apply/layer.ts";
import type { SiteHook } from "../../config/derived.ts";
import { bounds, ownRoot, sandbox, unitFile } from "../kit.ts";
import { builderUser, fetcherUser, paths, runFolders, units } from "../paths.ts";
import { toolFolder, toolsOf } from "../tools/tools.ts";

/** The folder of the release of Node whose npm installs packages. */
export function nodeOf({ site }: Pick<SiteHook, "site">): string | undefined {
  const node = site.npm ? toolsOf({ site }).find(({ tool }) => tool === "node") : undefined;
  return node && toolFolder(node.id);
}

export function fetcherFiles(hook: SiteHook, settings: string, leastMemoryMiB: number): HostFile[] {
  const { name, site } = hook;
  const node = nodeOf(hook);
  const { fetcher: socket, fetcherRoot, result } = runFolders(name);
  const common = { hook: name, target: units.site(name) };
  const user = builderUser(name);
  const values = {
    ...common,
    ...{ program: paths.fetcher, settings, user: fetcherUser(name), relay: paths.relay },
    ...{ root: ownRoot(fetcherRoot), work: `${paths.sites}/${name}/work`, result },
    node: node === undefined ? "" : `BindReadOnlyPaths=${node}`,
    bounds: bounds(site.limits, Math.max(site.limits.memoryMiB, leastMemoryMiB)),
    sandbox: sandbox("node", "# Node calls pkey_alloc: it goes on after EPERM, not after a signal."),
  };
  const from = ["pushgate-generator.socket", "pushgate-fetcher@.service"] as const;
  return [
    unitFile(import.meta.url, units.fetcherSocket(name), { ...common, user, socket, unit: "fetcher" }, from[0]),
    unitFile(import.meta.url, units.fetcher(name), values, from[1]),
  ];
}
