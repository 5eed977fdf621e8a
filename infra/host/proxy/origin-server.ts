/**
 * What the nginx servers on the origin port share, the hooks' server and one for each site: where their files are, and
 * origin-server.conf, which decides who may connect and which client address counts. nginx chooses the server by the
 * requested name, so a server without these lines would be a way around the others.
 */
import { originKey } from "../../contract.ts";
import { networks } from "../../networks.ts";
import { template } from "../kit.ts";
import { originCertificate } from "../origin-certificate/origin-certificate.ts";
import { paths } from "../paths.ts";

/** The CA of the client certificate that Cloudflare presents; of this stack alone. */
export const clientCaPath = `${paths.tls}/origin-pull-ca.pem` as const;

/** The client-ca layer installs it once Cloudflare presents a certificate of that CA. */
export const settledCaPath = `${paths.tls}/settled-ca.pem` as const;

/**
 * `ssl_trusted_certificate` with the settled CA, or with the new one while there is none. trust.sh of this folder writes
 * it. Without that directive nginx would trust the http level's CAs.
 */
const trustedCa = `${paths.tls}/trusted-ca.conf`;

/** What trust.sh reads. */
export const trust = { client_ca: clientCaPath, settled_ca: settledCaPath, trusted_ca: trustedCa } as const;

/** The layer writes these on the host, as a `[::]` line stops nginx from starting where the kernel has no IPv6. */
export const listen6 = { hooks: `${paths.state}/proxy-listen6.conf`, site: `${paths.state}/website-listen6.conf` };

/** Debian's /etc/logrotate.d/nginx rotates them. */
export const logs = {
  access: "/var/log/nginx/pushgate.log",
  error: "/var/log/nginx/pushgate-error.log",
  site: (hook: string) => `/var/log/nginx/pushgate-site-${hook}.log`,
};

/** An include of a file that may be missing: nginx accepts a pattern that matches nothing. */
export const whereExists = (path: string): string => path.replace(/\.conf$/, "*.conf");

/** One line for each item, indented by four blanks. */
export const lines = <T>(items: readonly T[], line: (item: T) => string): string =>
  items.map((item) => `    ${line(item)}`).join("\n");

export const originServer = template(import.meta.url, "origin-server.conf", {
  originCertificate,
  originKey,
  clientCa: clientCaPath,
  trustedCa: whereExists(trustedCa),
  cloudflareRanges: lines(networks.cloudflare.cidrs, (cidr) => `set_real_ip_from ${cidr};`),
}).trimEnd();
