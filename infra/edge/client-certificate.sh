# Prints a CA, a client certificate that it issued and the certificate's key as one JSON object. Runs on the operator's
# computer, from the next line on: a change of that text gives every stack a new CA and certificate.
# generation @generation@
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OPENSSL_CONF=/dev/null
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }
key ca
openssl req -new -x509 -sha256 -key ca.key -days 3650 -subj '/CN=pushgate origin pulls of @zone@' \
  -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' -addext 'keyUsage=critical,keyCertSign' -out ca.pem
key leaf
openssl req -new -sha256 -key leaf.key -subj '/CN=edge of @zone@' -out leaf.csr
printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n' >leaf.ext
openssl x509 -req -sha256 -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" -days 3650 \
  -extfile leaf.ext -out leaf.pem 2>/dev/null
# PEM has no character that JSON would escape but its line ends.
json() { awk '{ printf "%s\\n", $0 }' "$1"; }
printf '{"ca":"%s","certificate":"%s","key":"%s"}\n' "$(json ca.pem)" "$(json leaf.pem)" "$(json leaf.key)"
