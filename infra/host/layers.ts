/** Every layer of one machine by name, in the order they are applied; the goldens and the probe loop over it. */
import type { Host, Settings } from "../settings.ts";
import { type Bundle, bundle } from "./bundle.ts";
import { certificate } from "./certificate.ts";
import { firewall } from "./firewall.ts";
import { guard } from "./guard.ts";
import { keys } from "./keys.ts";
import { packages } from "./packages.ts";
import { proxy } from "./proxy.ts";
import { pulls } from "./pulls.ts";
import { receiver } from "./receiver.ts";
import { routing } from "./routing.ts";
import { secrets } from "./secrets.ts";

/** Public texts that other layers make. */
export type Made = {
  /** PEM of the origin's certificate. */
  readonly certificate: string;
  /** PEM of the CA whose leaf the edge presents. */
  readonly originPullCa: string;
  readonly bundle: Pick<Bundle, "sha256">;
};

export const hostLayers = (settings: Settings, host: Host, made: Made) => ({
  packages: packages(settings, host),
  keys: keys(settings, host),
  certificate: certificate(settings, host, made.certificate),
  secrets: secrets(settings, host),
  bundle: bundle(settings, host, made.bundle),
  receiver: receiver(settings, host),
  routing: routing(settings, host),
  proxy: proxy(settings, host, made.originPullCa),
  firewall: firewall(settings, host),
  guard: guard(settings, host),
  pulls: pulls(settings, host, made.originPullCa),
});

export type HostLayers = ReturnType<typeof hostLayers>;
