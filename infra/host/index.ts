/** Every layer of one machine by name, in the order they are applied; the goldens and the probe loop over it. */

import { type HostLayer, leaving } from "../apply/layer.ts";
import { sitesOf } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { builder } from "./builder/builder.ts";
import { pulls } from "./client-ca/client-ca.ts";
import { egress } from "./egress/egress.ts";
import { firewall } from "./firewall/firewall.ts";
import { guard } from "./guard/guard.ts";
import { certificate } from "./origin-certificate/origin-certificate.ts";
import { keys } from "./origin-key/origin-key.ts";
import { packages } from "./packages/packages.ts";
import { type Bundle, bundle } from "./programs/programs.ts";
import { proxy } from "./proxy/proxy.ts";
import { receiver } from "./receiver/receiver.ts";
import { routing } from "./routing/routing.ts";
import { secrets } from "./secrets/secrets.ts";
import { site } from "./site/site.ts";

/** Public texts that other layers make. */
export type Made = {
  /** PEM of the origin's certificate. */
  readonly certificate: string;
  /** PEM of the CA whose leaf the edge presents. */
  readonly originPullCa: string;
  /** The builder only where a hook has a site. */
  readonly programs: { readonly receiver: Pick<Bundle, "sha256">; readonly builder?: Pick<Bundle, "sha256"> };
};

/** The layers of the rebuild are there for a hook with a site, and leave a machine on which the last one was. */
export const rebuilds = (settings: Settings): boolean => sitesOf(settings).length > 0;
const whereRebuilt = (settings: Settings, layer: HostLayer): HostLayer => (rebuilds(settings) ? layer : leaving(layer));

export const hostLayers = (settings: Settings, host: Host, made: Made) => ({
  packages: packages(settings),
  "origin-key": keys(host),
  "origin-certificate": certificate(settings, host, made.certificate),
  secrets: secrets(settings),
  "receiver-program": bundle("receiver", settings, made.programs.receiver),
  receiver: receiver(settings, host),
  // The rebuild, inside the sandbox and behind the table that hold it: it uses the receiver's spool and group, and
  // stands before anything can be delivered, as nothing is reachable before the edge.
  "builder-program": whereRebuilt(settings, bundle("builder", settings, made.programs.builder ?? { sha256: "" })),
  egress: whereRebuilt(settings, egress(settings)),
  builder: whereRebuilt(settings, builder(settings)),
  site: whereRebuilt(settings, site(settings)),
  routing: routing(),
  proxy: proxy(settings, host, made.originPullCa),
  firewall: firewall(settings, host),
  guard: guard(settings, host),
  "client-ca": pulls(made.originPullCa),
});

export type HostLayers = ReturnType<typeof hostLayers>;
