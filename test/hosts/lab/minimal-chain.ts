/**
 * The smallest chain of nginx and an allowlisted socket, not made by the program's renderers. It proves that a host of
 * the lab enforces allowlists, so that a failure with rendered files is the renderer's fault.
 */
import type { Host } from "./host.ts";

const answer = "printf 'HTTP/1.0 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nthrough\\n'";

const socket = `[Socket]
ListenStream=127.0.0.1:9000
ListenStream=[::1]:9000
BindIPv6Only=ipv6-only
Accept=yes
Mark=1
IPAddressDeny=any
IPAddressAllow=192.30.252.0/22 2a0a:a440::/29
`;
const service = `[Service]
StandardInput=socket
ExecStart=/bin/sh -c "read -r line; ${answer.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"
`;
const proxy = `map $remote_addr $chain_upstream { default 127.0.0.1:9000; ~: [::1]:9000; }
server {
  listen 8443; listen [::]:8443;
  set_real_ip_from 173.245.48.0/20; set_real_ip_from 2400:cb00::/32; real_ip_header CF-Connecting-IP;
  location / {
    proxy_bind $remote_addr transparent; proxy_connect_timeout 500ms; proxy_http_version 1.0;
    proxy_pass http://$chain_upstream;
  }
}
`;

const routes = ["-4", "-6"]
  .map((v) => `ip ${v} rule add fwmark 1 lookup 100 pref 90 && ip ${v} route add local default dev lo table 100`)
  .join("\n");

/** Needs a host with nginx and IPv6: without ::1 the listeners would fail in both systemd and nginx. */
export async function addChain(host: Host): Promise<void> {
  await host.writeFile("/etc/systemd/system/chain.socket", socket);
  await host.writeFile("/etc/systemd/system/chain@.service", service);
  await host.writeFile("/etc/nginx/conf.d/chain.conf", proxy);
  await host.inside(`set -e
systemctl daemon-reload
systemctl start chain.socket
${routes}
nginx -q -t
systemctl reload-or-restart nginx`);
}
