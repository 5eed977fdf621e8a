/** Paths, units and accounts on the host, stated once. A script that is shipped unchanged names the paths that it uses. */
import { createHash } from "node:crypto";
import { stateFolders } from "../apply/layer.ts";

export const paths = {
  ...stateFolders,
  etc: "/etc/pushgate",
  units: "/etc/systemd/system",
  sysusers: "/etc/sysusers.d/pushgate.conf",
  tmpfiles: "/etc/tmpfiles.d/pushgate.conf",
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
  /** For each hook, encrypted by systemd-creds with the host's key. */
  credentials: "/etc/pushgate/credentials",
  metrics: "/run/pushgate/metrics.sock",
  /** What services read at their last start. */
  starts: "/run/pushgate/starts",
  /** Units that end before the next boot. */
  runUnits: "/run/systemd/system",
  guard: "/run/pushgate-guard",
  lib: "/usr/local/lib/pushgate",
  receiver: "/usr/local/lib/pushgate/receiver.cjs",
  builder: "/usr/local/lib/pushgate/builder.cjs",
  reporter: "/usr/local/lib/pushgate/reporter.cjs",
  fetcher: "/usr/local/lib/pushgate/fetcher.cjs",
  /** Node loads it before the fetcher. */
  relay: "/usr/local/lib/pushgate/relay.cjs",
  /** A folder for each release of a program that a site names. */
  tools: "/usr/local/lib/pushgate/tools",
  /** For each hook: the receiver stores deliveries there, the builder takes them. */
  spool: "/var/spool/pushgate",
  /** For each hook: settings of the builder, and the SSH host keys of its git host. */
  builderSettings: "/etc/pushgate/builder",
  builderSysusers: "/etc/sysusers.d/pushgate-builder.conf",
  builderTmpfiles: "/etc/tmpfiles.d/pushgate-builder.conf",
  egress: "/etc/pushgate/egress.conf",
  reporterSettings: "/etc/pushgate/reporter",
  /** For each hook: the builder puts reports there, the reporter sends them. */
  reports: "/var/spool/pushgate-reports",
  /** For each hook: an account that may request a build drops a file there. */
  requests: "/var/spool/pushgate-publish",
  /** For each hook: root requests builds and rollbacks there. Only root and the builder may enter it. */
  rootRequests: "/var/spool/pushgate-root",
  /** For each hook: clone, releases, and the link to the current release. */
  sites: "/var/lib/pushgate-sites",
  generator: "/run/pushgate-generator",
  roots: "/run/pushgate-roots",
} as const;

export const clientCaPath = `${paths.tls}/origin-pull-ca.pem` as const;

export const reporterSettingsPath = (hook: string) => `${paths.reporterSettings}/${hook}.json` as const;
/** A variable for the reporter's next start. */
export const notifyTest = (hook: string) => `/run/pushgate-notify-${hook}` as const;

/** The client-ca layer's: the CA of the certificate that Cloudflare presents, and the line that trusts it. */
export const settledCa = { path: `${paths.tls}/settled-ca.pem`, line: `${paths.tls}/settled-ca.conf` } as const;

/** systemd makes and removes `run`, and makes `cache`. */
export const nginxFolders = {
  run: "/run/pushgate-nginx",
  cache: "/var/cache/pushgate-nginx",
  logs: "/var/log/pushgate-nginx",
} as const;
/** Leads a former origin port to the present one, for as long as Cloudflare may connect to it. */
export const movedTable = "pushgate_moved";
export const nginxLogs = {
  access: `${nginxFolders.logs}/hooks.log`,
  error: `${nginxFolders.logs}/error.log`,
  site: (hook: string) => `${nginxFolders.logs}/site-${hook}.log`,
};

/** An instance of a template for one hook; the template without a hook, and in its text with "%i". */
const ofSite =
  (kind: string, type: "path" | "service" | "target" | "timer" | "*") =>
  (hook = "") =>
    `pushgate-${kind}@${hook}.${type}` as const;

export const units = {
  firewall: "pushgate-firewall.service",
  routing: "pushgate-routing.service",
  guard: "pushgate-guard.service",
  guardTimer: "pushgate-guard.timer",
  receiver: "pushgate-receiver.service",
  metricsSocket: "pushgate-metrics.socket",
  /** A release with another port or mark gives its socket another name: the former one then serves until nginx has it. */
  socket: (sourceSet: string) => `pushgate-receiver-${sourceSet}.socket`,
  nginx: "pushgate-nginx.service",
  nginxSocket: "pushgate-nginx.socket",
  egress: "pushgate-egress.service",
  site: ofSite("site", "target"),
  content: ofSite("content", "service"),
  build: ofSite("build", "service"),
  buildPath: ofSite("build", "path"),
  requestPath: ofSite("request", "path"),
  reconcile: ofSite("reconcile", "service"),
  reconcileTimer: ofSite("reconcile", "timer"),
  schedule: ofSite("schedule", "service"),
  scheduleTimer: ofSite("schedule", "timer"),
  agent: ofSite("agent", "service"),
  report: ofSite("report", "service"),
  reportPath: ofSite("report", "path"),
  reporter: ofSite("report", "*"),
  // No instances of one template: systemd 252 and 257 name the service of a connection after the connection alone
  // (pushgate-generator@4-812-0.service for pushgate-generator@site.socket).
  generator: (hook: string, connection = "") => `pushgate-generator-${hook}@${connection}.service`,
  generatorSocket: (hook: string) => `pushgate-generator-${hook}.socket`,
  fetcher: (hook: string, connection = "") => `pushgate-fetcher-${hook}@${connection}.service`,
  fetcherSocket: (hook: string) => `pushgate-fetcher-${hook}.socket`,
  stop: (hook: string, connection = "") => `pushgate-stop-${hook}@${connection}.service`,
  stopSocket: (hook: string) => `pushgate-stop-${hook}.socket`,
  mail: (hook: string, connection = "") => `pushgate-mail-${hook}@${connection}.service`,
  mailSocket: (hook: string) => `pushgate-mail-${hook}.socket`,
} as const;

/** They start a site's builder. */
export const builderPaths = [units.buildPath, units.requestPath];

/** Fits the names of these units, with `*` for each instance. */
export const oneOf = (names: readonly string[]): RegExp =>
  new RegExp(`^(${names.join("|").replaceAll(".", "\\.").replaceAll("*", ".*")})$`);

/** For each hook: what builder, agent, fetcher, generator and reporter share, and the empty folders that are their root directories. */
export const runFolders = (hook: string) => {
  const [own, roots] = [`${paths.generator}/${hook}`, `${paths.roots}/${hook}`] as const;
  return {
    ...{ own, socket: `${own}/socket`, fetcher: `${own}/fetcher`, result: `${own}/result`, agent: `${own}/agent` },
    mail: `${own}/mail`,
    ...{ roots, builderRoot: `${roots}/builder`, generatorRoot: `${roots}/generator`, fetcherRoot: `${roots}/fetcher` },
  } as const;
};

/** Static, because the receiver passes files to the builder's account. */
export const receiverUser = "pushgate-receiver";
export const nginxUser = "pushgate-nginx";

const longestAccount = 31; // characters, systemd-sysusers(8)

/** The accounts of a site: no site can read, signal or use up the processes of another. */
const ofHook =
  (kind: string) =>
  (hook: string): string => {
    const name = `pushgate-${kind}-${hook}`;
    if (name.length <= longestAccount) return name;
    // "_": no hook's name contains it.
    const sum = createHash("sha256").update(hook).digest("hex").slice(0, 8);
    return `${name.slice(0, longestAccount - 1 - sum.length)}_${sum}`;
  };

/** Takes deliveries, runs git and publishes. */
export const builderUser = ofHook("build");
/** Code of a repository runs as this account only. */
export const generatorUser = ofHook("generator");
/** Brings what a build needs beside its repository: it alone reads archives of strangers. */
export const fetcherUser = ofHook("fetcher");
/** Where results of builds leave the host: it alone has the token, and runs neither git nor the generator. */
export const reporterUser = ofHook("report");
