/**
 * The stack's own CA and the leaf the edge presents to the origins, made once by openssl on the operator's machine. The
 * machines trust the CA, so that a new leaf reaches no machine; the CA's key is thrown away, as a new leaf comes with a
 * new CA and machines take that up before the edge presents it.
 */
import type * as pulumi from "@pulumi/pulumi";

export type OriginPulls = {
  /** PEM, public: what the proxies trust. */
  readonly ca: string;
  /** PEM of the leaf, and its key: what the edge presents. */
  readonly certificate: string;
  readonly key: string;
};

/** Ten years: preview warns 90 days ahead, and raising the generation makes new ones. */
const days = 3650;

/**
 * POSIX sh for the operator's machine; prints one JSON object. The generation is part of the text, so that raising it
 * runs the script again. Keys live in a private folder for the seconds this takes.
 */
export function makeOriginPulls(zone: string, generation: number): string {
  return `# generation ${generation}
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OPENSSL_CONF=/dev/null
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }
key ca
openssl req -new -x509 -sha256 -key ca.key -days ${days} -subj '/CN=pushgate origin pulls of ${zone}' \\
  -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' -addext 'keyUsage=critical,keyCertSign' -out ca.pem
key leaf
openssl req -new -sha256 -key leaf.key -subj '/CN=edge of ${zone}' -out leaf.csr
printf 'basicConstraints=critical,CA:FALSE\\nkeyUsage=critical,digitalSignature\\nextendedKeyUsage=clientAuth\\n' >leaf.ext
openssl x509 -req -sha256 -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days ${days} \\
  -extfile leaf.ext -out leaf.pem 2>/dev/null
# PEM has no character that JSON would escape but its line ends.
json() { awk '{ printf "%s\\\\n", $0 }' "$1"; }
printf '{"ca":"%s","certificate":"%s","key":"%s"}\\n' "$(json ca.pem)" "$(json leaf.pem)" "$(json leaf.key)"
`;
}

/** What the script printed, or what went wrong, without a word of it: it holds a private key. */
export function readOriginPulls(made: pulumi.Output<string>): pulumi.Output<OriginPulls> {
  return made.apply((text) => {
    try {
      return JSON.parse(text) as OriginPulls;
    } catch {
      // Only in a preview before the first up, or where a mock says nothing.
      return { ca: "", certificate: "", key: "" };
    }
  });
}
