/**
 * The second half of what the proxy trusts. A new leaf at the edge comes with a new CA, and no moment is right for one
 * change: trusted too late, the new leaf is refused; dropped too early, the former one, which the edge presents for
 * minutes more. So nginx trusts two: the proxy's layer names the CA that is coming, before the edge is told, and this
 * one the CA that has come, after the edge says that it presents its leaf. Mostly they are the same.
 */

import type { HostLayer } from "../../apply/layer.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { settled } from "../proxy/origin-server.ts";

const reload = `if systemctl is-active --quiet nginx.service; then
  nginx -t -q
  systemctl reload nginx.service
fi`;

/** `originPullCa`: PEM of the CA whose leaf the edge presents. Applied when it does. */
export function pulls(_settings: Settings, _host: Host, originPullCa: string): HostLayer {
  return {
    name: "client-ca",
    formerly: "pulls",
    present: true,
    files: [
      {
        path: settled.ca,
        text: `${originPullCa.trimEnd()}\n`,
        mode: "0644",
        owner: "root:root",
        // nginx would not start with it, and every site of it would be down.
        check: 'openssl x509 -in "$1" -noout',
      },
      { path: settled.conf, text: `ssl_trusted_certificate ${settled.ca};\n`, mode: "0644", owner: "root:root" },
    ],
    owns: [settled.ca, settled.conf],
    activate: `[ -n "$changed" ] || exit 0
${reload}`,
    restore: reload,
    // That nginx reads them is the proxy's own file, and what it runs on the proxy's facts.
    facts: [],
    // nginx reads it only when told, and the proxy's own layer leaves next to next.
    retire: ":",
    timeout: 60,
  };
}
