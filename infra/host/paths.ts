/**
 * Paths, units and accounts on the host, stated once for renderers and tests. A script that is shipped unchanged
 * names the paths that it uses.
 */
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
  /** Origin key (0600 root), CSR, certificate, and the CA of the stack's own client certificate. */
  tls: "/etc/pushgate/tls",
  /** One file for each hook, encrypted by systemd-creds with the host's key. */
  credentials: "/etc/pushgate/credentials",
  /** Scripts and programs that run on the host. */
  lib: "/usr/local/lib/pushgate",
  receiver: "/usr/local/lib/pushgate/receiver.cjs",
  builder: "/usr/local/lib/pushgate/builder.cjs",
  /** One folder for each hook: the receiver stores deliveries there, the builder takes them. */
  spool: "/var/spool/pushgate",
  /** One file for each hook: rendered settings of the builder, and the SSH host keys of its git host. */
  builderSettings: "/etc/pushgate/builder",
  builderSysusers: "/etc/sysusers.d/pushgate-builder.conf",
  builderTmpfiles: "/etc/tmpfiles.d/pushgate-builder.conf",
  egress: "/etc/pushgate/egress.conf",
  /** One folder for each hook: an account that may request a build drops a file there. */
  requests: "/var/spool/pushgate-publish",
  /** One folder for each hook: clone, releases, and the link to the current release. */
  sites: "/var/lib/pushgate-sites",
  /** Hugo's sockets, and the empty folder that is its root directory. */
  hugo: "/run/pushgate-hugo",
} as const;

/** Unit names, as systemctl takes them. */
export const units = {
  firewall: "pushgate-firewall.service",
  routing: "pushgate-routing.service",
  guard: "pushgate-guard.service",
  guardTimer: "pushgate-guard.timer",
  receiver: "pushgate-receiver.service",
  /** One socket for each source set: `pushgate-receiver-github.socket`. */
  socket: (sourceSet: string) => `pushgate-receiver-${sourceSet}.socket`,
  egress: "pushgate-egress.service",
  /** The builder's units, for one hook. */
  build: (hook: string) => `pushgate-build-${hook}.service`,
  buildPath: (hook: string) => `pushgate-build-${hook}.path`,
  reconcile: (hook: string) => `pushgate-reconcile-${hook}.service`,
  reconcileTimer: (hook: string) => `pushgate-reconcile-${hook}.timer`,
  hugo: (hook: string) => `pushgate-hugo-${hook}@.service`,
  hugoSocket: (hook: string) => `pushgate-hugo-${hook}.socket`,
} as const;

/** The receiver's account; static, because the receiver passes files to the builder's account. */
export const receiverUser = "pushgate-receiver";

/** The builder's account takes deliveries, runs git and publishes. Code of a repository runs as Hugo's account only. */
export const builderUser = "pushgate-builder";
export const hugoUser = "pushgate-hugo";
