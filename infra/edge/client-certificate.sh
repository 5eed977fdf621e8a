# Prints a CA, a client certificate that it issued and the certificate's key as one JSON object. Runs on the operator's
# computer, from the next line on: a change of that text gives every stack a new CA and certificate.
# generation @generation@
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# macOS's LibreSSL makes no request without a distinguished name, and without `ec_param_enc` names no curve.
export OPENSSL_CONF="$folder/conf"
cat >conf <<'CONF'
[req]
distinguished_name = req
[ca]
default_ca = issuer
[issuer]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = subject
[subject]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
CONF
: >index
# Valid since long: a host's clock may be behind this computer's.
issue() { # name, common name, extensions, arguments
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out "$1.key"
  openssl req -new -sha256 -key "$1.key" -subj "/CN=$2" -out "$1.csr"
  openssl rand -hex 16 | tr a-f A-F >serial
  set -- -in "$1.csr" -out "$1.pem" -extensions "$3" "$4" "$5"
  openssl ca -batch -notext -keyfile ca.key -startdate 250101000000Z -days 3650 "$@"
}
issue ca '@issuer@' authority -selfsign -notext
issue leaf Cloudflare client -cert ca.pem
# PEM has no character that JSON would escape but its line ends.
json() { awk '{ printf "%s\\n", $0 }' "$1"; }
printf '{"ca":"%s","certificate":"%s","key":"%s"}\n' "$(json ca.pem)" "$(json leaf.pem)" "$(json leaf.key)"
