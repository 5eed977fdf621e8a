/** Where things land on the machine: each place once, so that a renderer, a script and a test can't disagree. */
export const paths = {
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
  /** Stamps, incoming bundles, salts: what pushgate remembers on the machine. */
  state: "/var/lib/pushgate",
  stamps: "/var/lib/pushgate/stamps",
  incoming: "/var/lib/pushgate/incoming",
  /** One folder a hook; the receiver writes, the builder takes. */
  spool: "/var/spool/pushgate",
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
} as const;

/** The static account the receiver runs as; static because it hands files to another account. */
export const receiverUser = "pushgate-receiver";
