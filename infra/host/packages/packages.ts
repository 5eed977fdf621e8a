/** The distribution's packages that the layers run. They stay on a removal: other software may use them by then. */
import { repositoryOf } from "../../../service/git-hosts/repository.ts";
import { sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import * as generator from "../builder/hugo.ts";
import { layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";
import { toolIds } from "../tools/tools.ts";

export function packagesOf(settings: Settings): string[] {
  const sites = sitesOf(settings);
  return [
    // The guard's perl-base and util-linux are Essential on Debian and Ubuntu, so every host has them.
    ...["iproute2", "nftables", "nginx", "nodejs", "openssl"],
    ...(sites.length > 0 ? ["ca-certificates", "git", "git-lfs"] : []),
    ...new Set(sites.flatMap(generator.packages)),
    ...(toolIds(settings).length > 0 ? ["curl"] : []),
    ...(sites.some(({ repository }) => repositoryOf(repository).ssh) ? ["openssh-client"] : []),
  ].sort();
}

export function packagesLayer(settings: Settings) {
  const packages = packagesOf(settings);
  return layerOf(import.meta.url, "packages", {
    values: {
      ...{ packages, new_nginx: `${paths.state}/nginx-is-new`, versions: `${paths.state}/versions` },
      folders: [paths.etc, paths.lib, paths.state],
      services: [units.receiver, units.nginx],
    },
    facts: [
      { name: `packages ${packages.join(", ")}`, read: "state", want: "installed" },
      { name: "pushgate's folders that others can write", read: "writable | grep . || echo none", want: "none" },
    ],
    // A slow mirror and a held lock together.
    timeout: 900,
  });
}
