/**
 * A published site: one more nginx server on the origin port, so that the firewall, strict TLS and the client
 * certificate protect it too. It serves static files and nothing else. docs/decisions/013.
 */
import { servedSites } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { servedByProxy } from "../../contract.ts";
import { template, textBeside } from "../kit.ts";
import { paths } from "../paths.ts";
import { logs } from "./places.ts";

/** What follows the hooks' server; nothing where no site is served. */
export function websites(settings: Settings, originPort: number, listen6: string): string {
  const servers = servedSites(settings).map(({ hook, hostname }) =>
    template(import.meta.url, "website.conf", {
      originPort,
      listen6,
      hostname,
      current: `${paths.sites}/${hook}/current`,
      accessLog: logs.site(hook),
      servedBy: servedByProxy,
    }),
  );
  return servers.length === 0
    ? ""
    : ["", textBeside(import.meta.url, "websites.conf"), ...servers].join("\n").trimEnd();
}
