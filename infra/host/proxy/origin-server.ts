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

/** The client-ca layer adds these to the trust once Cloudflare presents a certificate of that CA. */
export const settled = { ca: `${paths.tls}/settled-ca.pem`, conf: `${paths.tls}/settled-ca.conf` } as const;

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
  settledCa: whereExists(settled.conf),
  cloudflareRanges: lines(networks.cloudflare.cidrs, (cidr) => `set_real_ip_from ${cidr};`),
}).trimEnd();
