/** Every layer of one host by name, in the order of an apply: each before what needs or reaches it. */
import { type HostLayer, leaving } from "../apply/layer.ts";
import type { Host, Settings } from "../config/settings.ts";
import { builderLayer } from "./builder/builder.ts";
import { clientCaLayer } from "./client-ca/client-ca.ts";
import { egressLayer } from "./egress/egress.ts";
import { firewallLayer } from "./firewall/firewall.ts";
import { guardLayer } from "./guard/guard.ts";
import { originCertificateLayer } from "./origin-certificate/origin-certificate.ts";
import { originKeyLayer } from "./origin-key/origin-key.ts";
import { packagesLayer } from "./packages/packages.ts";
import { isNeeded, type Program, programLayer } from "./programs/programs.ts";
import { proxyLayer } from "./proxy/proxy.ts";
import { receiverLayer } from "./receiver/receiver.ts";
import { routingLayer } from "./routing/routing.ts";
import { secretsLayer } from "./secrets/secrets.ts";
import { siteLayer } from "./site/site.ts";

/** Public texts that other layers make: PEMs of origin certificate and client CA, and the programs that the hosts need. */
export type Made = {
  readonly certificate: string;
  readonly clientCaPem: string;
  readonly programs: { readonly [program in Program]?: { readonly sha256: string } };
};

export function hostLayers(settings: Settings, host: Host, made: Made) {
  const of = (program: Program, layer: HostLayer): HostLayer => (isNeeded(program, settings) ? layer : leaving(layer));
  const programOf = (program: Program) =>
    of(program, programLayer(program, settings, made.programs[program] ?? { sha256: "" }));
  return {
    packages: packagesLayer(settings),
    "origin-key": originKeyLayer(host),
    "origin-certificate": originCertificateLayer(settings, host, made.certificate),
    secrets: secretsLayer(settings),
    "receiver-program": programOf("receiver"),
    receiver: receiverLayer(settings),
    // The builder uses the receiver's spool and group, and its egress table is active before it can start.
    "builder-program": programOf("builder"),
    "reporter-program": programOf("reporter"),
    egress: of("builder", egressLayer(settings)),
    builder: of("builder", builderLayer(settings, host)),
    site: of("builder", siteLayer(settings)),
    routing: routingLayer(),
    proxy: proxyLayer(settings, host, made.clientCaPem),
    firewall: firewallLayer(settings, host),
    guard: guardLayer(settings),
    "client-ca": clientCaLayer(made.clientCaPem),
  };
}

export type HostLayers = ReturnType<typeof hostLayers>;
export type LayerName = keyof HostLayers;
export const layerNames = (layers: HostLayers): LayerName[] => Object.keys(layers) as LayerName[];
