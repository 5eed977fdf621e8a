/** The releases of programs that sites name (`site.tools`), each in a folder of root's that the generator's units mount. */
import type { HostReport } from "../../apply/report.ts";
import { call } from "../../apply/shell.ts";
import { type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Settings, Site } from "../../config/settings.ts";
import { type Architecture, archiveUrl, releasesOf, tools } from "../../config/tools.ts";
import { layerOf } from "../kit.ts";
import { paths } from "../paths.ts";

export const toolFolder = (id: string) => `${paths.tools}/${id}` as const;

export const toolsOf = (site: Pick<Site, "tools">) =>
  releasesOf(site).map(({ tool, id }) => {
    const folder = toolFolder(id);
    return { tool, folder, program: `${folder}/${tools[tool].program}` };
  });

/** Each release once, of the first site that names it. */
const allOf = (sites: readonly SiteHook[]) => {
  const named = sites.flatMap(({ name, site }) => releasesOf(site).map((one) => ({ ...one, hook: name, site })));
  return named.filter(({ id }, i) => named.findIndex((other) => other.id === id) === i);
};

export const toolIds = (settings: Settings): string[] => allOf(sitesOf(settings)).map(({ id }) => id);

const installed = "as installed";

export const missingTools = (settings: Settings, { layers }: Pick<HostReport, "layers">): string[] =>
  toolIds(settings).filter((_, i) => layers.tools?.facts[i]?.output !== installed);

export function toolsLayer(settings: Settings) {
  const all = allOf(sitesOf(settings));
  return layerOf(import.meta.url, "tools", {
    values: { tools: paths.tools },
    activate: all
      .map(({ tool, release, id, hook, site: { mirror } }) => {
        const url = (architecture: Architecture) => archiveUrl(tool, release.version, architecture, mirror);
        const archives = [url("amd64"), release.amd64, url("arm64"), release.arm64];
        return call("install_tool", id, hook, tools[tool].program, String(tools[tool].top), ...archives);
      })
      .join("\n"),
    facts: all.map(({ id, release: { amd64, arm64 } }) => ({
      name: `${toolFolder(id)} is`,
      read: call("tool_state", id, amd64, arm64),
      want: installed,
    })),
    // A download and an unpacking of each.
    timeout: 60 + 400 * all.length,
  });
}
