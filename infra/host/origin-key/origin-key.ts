/**
 * The origin's key and its certificate request, made on the machine: the key never leaves it, so it is in no state, no
 * log and no rendered file. An existing good key is kept, as a new one would not fit the installed certificate and an
 * nginx that restarts in between would not start, other people's sites included.
 */

import type { HostLayer } from "../../apply/layer.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { originKey } from "../../contract.ts";
import { paths } from "../paths.ts";

export const originCsr = `${paths.tls}/origin.csr` as const;

/** X.509 allows 64 characters in a common name; a longer hostname stands in the SAN alone, which is what counts. */
const subject = (hostname: string): string => (hostname.length <= 64 ? `/CN=${hostname}` : "/CN=pushgate origin");

/** Shell functions `key_fault` and `csr_fault`: print what is wrong, or nothing. `-passin` so that nothing ever asks. */
const faults = (hostname: string): string => `export LC_ALL=C
key=${originKey}
csr=${originCsr}
key_public() { openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null; }
key_fault() {
  if [ ! -f "$key" ] || [ -L "$key" ]; then
    echo "no key"
  elif ! openssl pkey -in "$key" -passin pass: -noout -text 2>/dev/null | grep -q 'ASN1 OID: prime256v1'; then
    echo "not a P-256 key"
  fi
}
csr_fault() {
  if [ ! -f "$csr" ] || [ -L "$csr" ]; then
    echo "no request"
  elif [ "$(openssl req -in "$csr" -noout -pubkey 2>/dev/null)" != "$(key_public)" ]; then
    echo "the request is of another key"
  elif [ "$(openssl req -in "$csr" -noout -text 2>/dev/null | sed -n 's/^ *DNS:/DNS:/p')" != 'DNS:${hostname}' ]; then
    echo "the request is for another hostname"
  elif ! openssl req -in "$csr" -noout -verify 2>&1 | grep -q 'verify OK'; then
    echo "the request's signature is wrong"
  fi
}
`;

/** Shell: prints the request, which is public, where key and request are good; else nothing. Reads only. */
export const readCsr = ({ hostname }: Host): string => `${faults(hostname)}
[ -n "$(key_fault)$(csr_fault)" ] || cat "$csr"`;

export function keys(_settings: Settings, { hostname }: Host): HostLayer {
  return {
    name: "origin-key",
    formerly: "keys",
    files: [],
    // Nothing by glob: what is pruned by it is gone, and a key can't be rendered again. `retire` removes both.
    owns: [],
    // The request goes to standard output, where the certificate's resource reads it.
    activate: `${faults(hostname)}
umask 077
for folder in ${paths.etc} ${paths.tls}; do
  [ -d "$folder" ] || mkdir -m 0755 "$folder"
done
if [ -n "$(key_fault)" ]; then
  rm -rf "$key.new"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out "$key.new"
  sync "$key.new"
  rm -rf "$key"
  mv -T "$key.new" "$key"
fi
chown root:root "$key"
chmod 0600 "$key"
if [ -n "$(csr_fault)" ]; then
  rm -rf "$csr.new"
  # Without a configuration file: the machine's own might add extensions or ask for more names.
  OPENSSL_CONF=/dev/null openssl req -new -sha256 -key "$key" -out "$csr.new" \\
    -subj '${subject(hostname)}' -addext 'subjectAltName=DNS:${hostname}'
  chmod 0644 "$csr.new"
  rm -rf "$csr"
  mv -T "$csr.new" "$csr"
fi
cat "$csr"`,
    facts: [
      {
        name: "origin key and certificate request",
        read: `${faults(hostname)}
fault=$(key_fault)
[ -n "$fault" ] || fault=$(csr_fault)
[ -n "$fault" ] || [ "$(stat -c '%a %U:%G' "$key")" = '600 root:root' ] || fault="the key is $(stat -c '%a %U:%G' "$key")"
echo "\${fault:-valid}"`,
        want: "valid",
      },
    ],
    retire: `rm -f ${originKey} ${originKey}.new ${originCsr} ${originCsr}.new
[ ! -d ${paths.tls} ] || rmdir --ignore-fail-on-non-empty ${paths.tls}
[ ! -d ${paths.etc} ] || rmdir --ignore-fail-on-non-empty ${paths.etc}`,
    present: true,
    timeout: 60,
  };
}
