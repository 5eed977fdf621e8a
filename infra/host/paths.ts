/**
 * Paths, units and accounts on the host, stated once for renderers and tests. A script that is shipped unchanged
 * names the paths that it uses.
 */
import { createHash } from "node:crypto";
import { stateFolders } from "../apply/layer.ts";

export const paths = {
  ...stateFolders,
  /** Rendered, public configuration. */
  etc: "/etc/pushgate",
  units: "/etc/systemd/system",
  sysusers: "/etc/sysusers.d/pushgate.conf",
  tmpfiles: "/etc/tmpfiles.d/pushgate.conf",
  /** All of the configuration of pushgate's nginx, and what else of it is below /etc. */
  nginx: "/etc/pushgate/nginx.conf",
  nginxOwn: {
    sysusers: "/etc/sysusers.d/pushgate-nginx.conf",
    tmpfiles: "/etc/tmpfiles.d/pushgate-nginx.conf",
    logrotate: "/etc/logrotate.d/pushgate-nginx",
  },
  nftables: "/etc/pushgate/firewall.nft",
  receiverSettings: "/etc/pushgate/receiver.json",
  /** Origin key (0600 root), CSR, certificate, and the CA of the stack's own client certificate. */
  tls: "/etc/pushgate/tls",
  /** One file for each hook, encrypted by systemd-creds with the host's key. */
  credentials: "/etc/pushgate/credentials",
  /** The receiver answers `GET /metrics` on it. */
  metrics: "/run/pushgate/metrics.sock",
  /** What the guard found, and which sockets it stopped. */
  guard: "/run/pushgate-guard",
  /** Scripts and programs that run on the host. */
  lib: "/usr/local/lib/pushgate",
  receiver: "/usr/local/lib/pushgate/receiver.cjs",
  builder: "/usr/local/lib/pushgate/builder.cjs",
  reporter: "/usr/local/lib/pushgate/reporter.cjs",
  /** One folder for each hook: the receiver stores deliveries there, the builder takes them. */
  spool: "/var/spool/pushgate",
  /** One file for each hook: rendered settings of the builder, and the SSH host keys of its git host. */
  builderSettings: "/etc/pushgate/builder",
  builderSysusers: "/etc/sysusers.d/pushgate-builder.conf",
  builderTmpfiles: "/etc/tmpfiles.d/pushgate-builder.conf",
  egress: "/etc/pushgate/egress.conf",
  /** One file for each hook: rendered settings of the reporter. */
  reporterSettings: "/etc/pushgate/reporter",
  /** One folder for each hook: the builder puts reports there, the reporter sends them. */
  reports: "/var/spool/pushgate-reports",
  /** One folder for each hook: an account that may request a build drops a file there. */
  requests: "/var/spool/pushgate-publish",
  /** One folder for each hook: root requests builds and rollbacks there. Only root and the builder may enter it. */
  rootRequests: "/var/spool/pushgate-root",
  /** One folder for each hook: clone, releases, and the link to the current release. */
  sites: "/var/lib/pushgate-sites",
  /** The generator's sockets, how its last builds ended, and the empty folder that is its root directory. */
  generator: "/run/pushgate-generator",
} as const;

/** An instance of a template for one hook; the template without a hook, and in its text with "%i". */
const ofSite =
  (kind: string, type: "path" | "service" | "target" | "timer" | "*") =>
  (hook = "") =>
    `pushgate-${kind}@${hook}.${type}` as const;

/** Unit names, as systemctl takes them. */
export const units = {
  firewall: "pushgate-firewall.service",
  routing: "pushgate-routing.service",
  guard: "pushgate-guard.service",
  guardTimer: "pushgate-guard.timer",
  receiver: "pushgate-receiver.service",
  metricsSocket: "pushgate-metrics.socket",
  /** One socket for each source set: `pushgate-receiver-github.socket`. */
  socket: (sourceSet: string) => `pushgate-receiver-${sourceSet}.socket`,
  nginx: "pushgate-nginx.service",
  nginxSocket: "pushgate-nginx.socket",
  egress: "pushgate-egress.service",
  /** All units of a site: what starts, stops or enables it does so to them. */
  site: ofSite("site", "target"),
  content: ofSite("content", "service"),
  build: ofSite("build", "service"),
  buildPath: ofSite("build", "path"),
  reconcile: ofSite("reconcile", "service"),
  reconcileTimer: ofSite("reconcile", "timer"),
  schedule: ofSite("schedule", "service"),
  scheduleTimer: ofSite("schedule", "timer"),
  agent: ofSite("agent", "service"),
  report: ofSite("report", "service"),
  reportPath: ofSite("report", "path"),
  /** A pattern: both of these. */
  reporter: ofSite("report", "*"),
  /**
   * No instances of one template for all hooks: systemd names the service of a connection after the connection alone
   * (pushgate-generator@4-812-0.service for pushgate-generator@site.socket, in systemd 252 and 257), so it would not know its hook.
   */
  generator: (hook: string, connection = "") => `pushgate-generator-${hook}@${connection}.service`,
  generatorSocket: (hook: string) => `pushgate-generator-${hook}.socket`,
  stop: (hook: string, connection = "") => `pushgate-stop-${hook}@${connection}.service`,
  stopSocket: (hook: string) => `pushgate-stop-${hook}.socket`,
} as const;

/** The receiver's account; static, because the receiver passes files to the builder's account. */
export const receiverUser = "pushgate-receiver";

/** Of pushgate's own nginx. */
export const nginxUser = "pushgate-nginx";

/**
 * Two accounts for each site, so that no site can read, signal or use up the processes of another. The builder's takes
 * deliveries, runs git and publishes. Code of a repository runs as the generator's account only.
 */
export const builderUser = (hook: string): string => account("build", hook);
export const generatorUser = (hook: string): string => account("generator", hook);
/** A third one, where results of builds leave the host: it alone has the token, and runs neither git nor the generator. */
export const reporterUser = (hook: string): string => account("report", hook);

const longestAccount = 31; // characters, systemd-sysusers(8)

/** A long hook's name is cut, and has a hash after "_", which no hook's name contains. */
function account(kind: string, hook: string): string {
  const name = `pushgate-${kind}-${hook}`;
  if (name.length <= longestAccount) return name;
  const sum = createHash("sha256").update(hook).digest("hex").slice(0, 8);
  return `${name.slice(0, longestAccount - 1 - sum.length)}_${sum}`;
}
