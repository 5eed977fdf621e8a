/** What a layer's first apply does on a host, in one line each: preview prints it before the first `up`. Pure. */
import { neverCame } from "../apply/reconcile.ts";
import type { HostReport } from "../apply/report.ts";
import { type SiteHook, servedSites, sitesOf } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { accountNames } from "./egress/egress.ts";
import { type HostLayers, type LayerName, layerNames } from "./index.ts";
import { portsOf } from "./kit.ts";
import { packagesOf } from "./packages/packages.ts";
import { paths, receiverUser, units } from "./paths.ts";
import { routingTable } from "./routing/routing.ts";
import { missingTools, toolIds } from "./tools/tools.ts";

const sitesAs = (settings: Settings, text: (hook: SiteHook) => string): string =>
  sitesOf(settings).map(text).join(", ");

const lines: Readonly<Record<LayerName, (settings: Settings, host: Host) => string>> = {
  packages: (settings) => `installs what is missing of ${packagesOf(settings).join(", ")}`,
  "origin-key": () => "makes the origin certificate's private key, which stays on the host",
  "origin-certificate": (_, { hostname }) => `installs the origin certificate for ${hostname}`,
  secrets: ({ hooks }) => `encrypts the secrets of ${hooks.map(({ name }) => name).join(", ")} with the host's key`,
  routing: () => `keeps the receiver's replies on the host, in routing table ${routingTable}`,
  receiver: (settings) =>
    `installs its program, makes the account ${receiverUser} and starts ${units.receiver} on loopback (${portsOf(settings)})`,
  egress: (settings) =>
    `makes the accounts ${accountNames(sitesOf(settings)).join(", ")} and limits their network access`,
  tools: (settings) => `downloads and installs ${toolIds(settings).join(", ")} below ${paths.tools}`,
  builder: (settings) => `installs the programs and units that build ${sitesAs(settings, ({ name }) => name)}`,
  site: (settings) => `makes ${sitesAs(settings, ({ site }) => site.webRoot)} a link to the current release`,
  proxy: (settings, { originPort }) => {
    const served = ["hooks", ...servedSites(settings).map(({ hostname }) => hostname)].join(" and ");
    return `starts an nginx of its own on port ${originPort} for ${served}; another nginx stays as it is`;
  },
  firewall: (_, { originPort }) => `admits Cloudflare alone to TCP port ${originPort}; other ports stay as they are`,
  guard: () => `starts ${units.guardTimer}, which checks all of this every minute`,
  "client-ca": () => "has nginx trust the client certificate that Cloudflare presents, and no former one",
};

export function firstApply(settings: Settings, host: Host, layers: HostLayers, report: HostReport): string | undefined {
  const names = layerNames(layers).filter((name) => layers[name].present !== false && neverCame(report.layers[name]!));
  const missing = names.includes("tools") ? [] : missingTools(settings, report);
  const width = Math.max(...names.map((name) => name.length)) + 2;
  const added = names.map((name) => `  ${name.padEnd(width)}${lines[name](settings, host)}`);
  const text = [
    ...(names.length > 0 ? [`${host.name}: \`up\` adds these layers:`, ...added] : []),
    ...(missing.length > 0 ? [`${host.name}: \`up\` downloads and installs ${missing.join(", ")}.`] : []),
  ];
  return text.length > 0 ? text.join("\n") : undefined;
}
