/** Where the files of pushgate's nginx are, for the layers and commands that know them. */
import { paths } from "../paths.ts";

/** Of this stack alone. */
export const clientCaPath = `${paths.tls}/origin-pull-ca.pem` as const;
/** The client-ca layer installs both once Cloudflare presents a certificate of that CA: the CA, and the line that trusts it. */
export const settledCa = { path: `${paths.tls}/settled-ca.pem`, line: `${paths.tls}/settled-ca.conf` } as const;

/** systemd makes and removes `run`, and makes `cache`. */
export const folders = {
  run: "/run/pushgate-nginx",
  cache: "/var/cache/pushgate-nginx",
  logs: "/var/log/pushgate-nginx",
} as const;

export const logs = {
  access: `${folders.logs}/hooks.log`,
  error: `${folders.logs}/error.log`,
  site: (hook: string) => `${folders.logs}/site-${hook}.log`,
};
