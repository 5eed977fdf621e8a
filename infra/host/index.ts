/** Every layer of one host by name, in the order of an apply: each before what needs or reaches it. */
import { type HostLayer, leaving } from "../apply/layer.ts";
import { sitesOf } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { builderLayer, builderPrograms } from "./builder/builder.ts";
import { clientCaLayer } from "./client-ca/client-ca.ts";
import { egressLayer } from "./egress/egress.ts";
import { firewallLayer } from "./firewall/firewall.ts";
import { guardLayer } from "./guard/guard.ts";
import { originCertificateLayer } from "./origin-certificate/origin-certificate.ts";
import { originKeyLayer } from "./origin-key/origin-key.ts";
import { packagesLayer } from "./packages/packages.ts";
import type { Program, ProgramHashes } from "./programs/programs.ts";
import { proxyLayer } from "./proxy/proxy.ts";
import { receiverLayer, receiverPrograms } from "./receiver/receiver.ts";
import { routingLayer } from "./routing/routing.ts";
import { secretsLayer } from "./secrets/secrets.ts";
import { siteLayer } from "./site/site.ts";
import { toolIds, toolsLayer } from "./tools/tools.ts";

/** Public texts that other layers make: PEMs, the id of the zone, and the programs that the hosts need. */
export type Made = Readonly<{ certificate: string; clientCaPem: string; programs: ProgramHashes; zoneId?: string }>;

export function hostLayers(settings: Settings, host: Host, made: Made) {
  const ofSites = (layer: HostLayer): HostLayer => (sitesOf(settings).length > 0 ? layer : leaving(layer));
  const ofTools = (layer: HostLayer): HostLayer => (toolIds(settings).length > 0 ? layer : leaving(layer));
  return {
    packages: packagesLayer(settings),
    "origin-key": originKeyLayer(host),
    "origin-certificate": originCertificateLayer(settings, host, made.certificate),
    secrets: secretsLayer(settings),
    routing: routingLayer(),
    receiver: receiverLayer(settings, made.programs),
    // The builder uses the receiver's spool and group and the tools, and its egress table is active before it can start.
    egress: ofSites(egressLayer(settings)),
    tools: ofTools(toolsLayer(settings)),
    builder: ofSites(builderLayer(settings, host, made.programs, made.zoneId)),
    site: ofSites(siteLayer(settings)),
    proxy: proxyLayer(settings, host, made.clientCaPem),
    firewall: firewallLayer(settings, host),
    guard: guardLayer(settings),
    "client-ca": clientCaLayer(made.clientCaPem, host.originPort),
  };
}

export type HostLayers = ReturnType<typeof hostLayers>;
export type LayerName = keyof HostLayers;
export const layerNames = (layers: HostLayers): LayerName[] => Object.keys(layers) as LayerName[];

export const programsIn: { readonly [layer in LayerName]?: readonly Program[] } = {
  receiver: receiverPrograms,
  builder: builderPrograms,
};
