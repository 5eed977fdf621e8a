/**
 * The origin's certificate, signed by the edge's origin CA from the request that `keys.ts` made. Public. It is refused
 * unless it fits the key: nginx does not start with a pair that does not match, and then every site on it is down.
 */

import type { HostLayer } from "../../apply/layer.ts";
import { namesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { originKey } from "../../contract.ts";
import { asInstalled } from "../as-installed.ts";
import { paths } from "../paths.ts";

export const originCertificate = `${paths.tls}/origin.pem` as const;

/** Shell: prints what is wrong with the certificate in "$1", or nothing. */
const fault = (hostnames: readonly string[]): string => `export LC_ALL=C
certificate_fault() {
  if ! openssl x509 -in "$1" -noout 2>/dev/null; then
    echo "not a certificate"
  elif [ "$(openssl x509 -in "$1" -noout -pubkey)" != "$(openssl pkey -in ${originKey} -passin pass: -pubout 2>/dev/null)" ]; then
    echo "does not match the key on this machine: it was signed from another machine's request"
${hostnames
  .map(
    (hostname) => `  elif ! openssl x509 -in "$1" -noout -checkhost '${hostname}' | grep -q 'does match'; then
    echo "is not for ${hostname}"
`,
  )
  .join("")}  elif ! openssl x509 -in "$1" -noout -checkend 0 >/dev/null; then
    echo "expired: $(openssl x509 -in "$1" -noout -enddate)"
  fi
}
`;

/**
 * nginx reads a certificate only when told. Where our server is not configured yet, or not as it was, the proxy's layer
 * tells it.
 */
const reload = `if [ -f ${paths.nginx} ] && systemctl is-active --quiet nginx.service && ${asInstalled("proxy")}; then
  nginx -t -q
  systemctl reload nginx.service
fi`;

export function certificate(settings: Settings, host: Host, pem: string): HostLayer {
  const names = namesOf(settings, host);
  return {
    name: "certificate",
    files: [
      {
        path: originCertificate,
        text: pem.endsWith("\n") ? pem : `${pem}\n`,
        mode: "0644",
        owner: "root:root",
        check: `${fault(names)}
fault=$(certificate_fault "$1")
[ -z "$fault" ] || { echo "the certificate $fault" >&2; exit 1; }`,
      },
    ],
    owns: [originCertificate],
    activate: `case "$changed" in
  *${originCertificate}*)
    ${reload.replaceAll("\n", "\n    ")}
    ;;
esac`,
    restore: `[ ! -f ${originCertificate} ] || {
  ${reload.replaceAll("\n", "\n  ")}
}`,
    facts: [
      {
        name: "origin certificate",
        read: `${fault(names)}
fault=$(certificate_fault ${originCertificate})
echo "\${fault:-valid}"`,
        want: "valid",
      },
    ],
    retire: ":",
    present: true,
    timeout: 60,
  };
}
