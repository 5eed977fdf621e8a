# `-passin` keeps openssl from waiting for a passphrase.
export LC_ALL=C

key_fault() {
  if [ ! -f "$key" ] || [ -L "$key" ]; then
    echo "no key"
  elif ! openssl pkey -in "$key" -passin pass: -noout -text 2>/dev/null | grep -q 'ASN1 OID: prime256v1'; then
    echo "not a P-256 key"
  fi
}

csr_fault() {
  # Runs openssl once for all of this: its start is most of the cost.
  said=$(openssl req -in "$csr" -noout -pubkey -text -verify 2>&1) || :
  if ! printf '%s\n' "$said" | grep -qE '^(Certificate request self-signature )?verify OK$'; then
    echo "the request is missing or damaged"
  elif [ "$(printf '%s\n' "$said" | sed -n '/^-----BEGIN PUBLIC KEY/,/^-----END/p')" != "$(openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null)" ]; then
    echo "the request is of another key"
  elif [ "$(printf '%s\n' "$said" | sed -n 's/^ *DNS:/DNS:/p')" != "DNS:$hostname" ]; then
    echo "the request is for another hostname"
  fi
}

state() {
  fault=$(key_fault)
  [ -n "$fault" ] || fault=$(csr_fault)
  [ -n "$fault" ] || [ "$(stat -c '%a %U:%G' "$key")" = '600 root:root' ] || fault="the key is $(stat -c '%a %U:%G' "$key")"
  [ -n "$fault" ] || [ "$(stat -c '%F %a %U:%G' "$csr")" = 'regular file 644 root:root' ] || fault="the request is $(stat -c '%F %a %U:%G' "$csr")"
  echo "${fault:-valid}"
}

# Fact: the request, where key and request are good.
request() { [ -n "$(key_fault)$(csr_fault)" ] || cat "$csr"; }

activate() {
  mkdir -p "$tls"
  umask 077
  if [ -n "$(key_fault)" ]; then
    rm -rf "$key.new"
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out "$key.new"
    rm -rf "$key"
    replace "$key"
  fi
  chown root:root "$key"
  chmod 0600 "$key"
  if [ -n "$(csr_fault)" ]; then
    rm -rf "$csr.new"
    # Without the host's openssl.cnf, which may add extensions or require more names.
    OPENSSL_CONF=/dev/null openssl req -new -sha256 -key "$key" -out "$csr.new" \
      -subj "$subject" -addext "subjectAltName=DNS:$hostname"
    rm -rf "$csr"
    replace "$csr"
  elif [ -L "$csr" ]; then
    cp "$csr" "$csr.new"
    replace "$csr"
  fi
  chown root:root "$csr"
  chmod 0644 "$csr"
  cat "$csr"
}

retire() {
  rm -f "$key" "$key.new" "$csr" "$csr.new"
  remove_empty "$tls" "${tls%/*}"
}
