/**
 * A published site: one more nginx server on the origin port, so that the firewall, strict TLS and the client
 * certificate protect it too. It serves static files and nothing else. docs/decisions/013.
 */
import { servedSites } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { servedByProxy } from "../../contract.ts";
import { nginxWord, template, textBeside } from "../kit.ts";
import { paths } from "../paths.ts";
import { logs } from "./places.ts";

/**
 * A folder of `site.folders`. nginx opens each step of the path without following a link, so no account that can write
 * there publishes another file that nginx may read. A regular expression comes before it: no dot file is served.
 */
const folder = ([name, path]: readonly [string, string]): string => `\
        location /${name}/ {
            alias ${nginxWord(`${path}/`)};
            disable_symlinks on;
        }
`;

/** What follows the hooks' server; nothing where no site is served. */
export function websites(settings: Settings, originPort: number, listen6: string): string {
  const servers = servedSites(settings).map(({ hook, hostname, folders }) =>
    template(import.meta.url, "website.conf", {
      ...{ originPort, listen6, hostname, accessLog: logs.site(hook), servedBy: servedByProxy },
      current: `${paths.sites}/${hook}/current`,
      folders: folders.map(folder).join("\n"),
    }),
  );
  return servers.length === 0
    ? ""
    : ["", textBeside(import.meta.url, "websites.conf"), ...servers].join("\n").trimEnd();
}
