/** Where things land on the machine: each place once, so that a renderer, a script and a test can't disagree. */
import { places } from "../apply/places.ts";

export const paths = {
  ...places,
  /** Rendered, public configuration. */
  etc: "/etc/pushgate",
  units: "/etc/systemd/system",
  sysusers: "/etc/sysusers.d/pushgate.conf",
  tmpfiles: "/etc/tmpfiles.d/pushgate.conf",
  nginx: "/etc/nginx/conf.d/pushgate.conf",
  nftables: "/etc/pushgate/firewall.nft",
  receiverSettings: "/etc/pushgate/receiver.json",
  /** Origin key (0600 root), CSR, certificate and the CA of our own origin-pull certificate. */
  tls: "/etc/pushgate/tls",
  /** One file a hook, encrypted by systemd-creds with the host's key. */
  credentials: "/etc/pushgate/credentials",
  /** Scripts and bundles that run on the machine. */
  lib: "/usr/local/lib/pushgate",
  receiver: "/usr/local/lib/pushgate/receiver.cjs",
  builder: "/usr/local/lib/pushgate/builder.cjs",
  /** One folder a hook; the receiver writes, the builder takes. */
  spool: "/var/spool/pushgate",
  /** Rendered settings of the rebuild, and the host keys of its git hosts: a file a hook. */
  builderSettings: "/etc/pushgate/builder",
  builderSysusers: "/etc/sysusers.d/pushgate-builder.conf",
  builderTmpfiles: "/etc/tmpfiles.d/pushgate-builder.conf",
  egress: "/etc/pushgate/egress.conf",
  /** One folder a hook; whoever may ask for a build drops a file there. */
  asks: "/var/spool/pushgate-publish",
  /** One folder a hook: clone, releases, what is served. */
  sites: "/var/lib/pushgate-sites",
  /** Where hugo is asked, and the empty folder that is its root. */
  hugo: "/run/pushgate-hugo",
} as const;

/** Unit names, as systemctl takes them. */
export const units = {
  firewall: "pushgate-firewall.service",
  routing: "pushgate-routing.service",
  guard: "pushgate-guard.service",
  guardTimer: "pushgate-guard.timer",
  receiver: "pushgate-receiver.service",
  /** One socket a source set: `pushgate-receiver-github.socket`. */
  socket: (sourceSet: string) => `pushgate-receiver-${sourceSet}.socket`,
  egress: "pushgate-egress.service",
  /** The rebuild's, of one hook. */
  build: (hook: string) => `pushgate-build-${hook}.service`,
  buildPath: (hook: string) => `pushgate-build-${hook}.path`,
  reconcile: (hook: string) => `pushgate-reconcile-${hook}.service`,
  reconcileTimer: (hook: string) => `pushgate-reconcile-${hook}.timer`,
  hugo: (hook: string) => `pushgate-hugo-${hook}@.service`,
  hugoSocket: (hook: string) => `pushgate-hugo-${hook}.socket`,
} as const;

/** The static account the receiver runs as; static because it hands files to another account. */
export const receiverUser = "pushgate-receiver";

/** Takes deliveries, runs git, publishes; and the only account that template code runs as. */
export const builderUser = "pushgate-builder";
export const hugoUser = "pushgate-hugo";
