# `-passin` keeps openssl from waiting for a passphrase.
export LC_ALL=C

# Fact: the first fault of key and request. One start of openssl reads all of a file: it is most of the cost.
state() {
  if [ ! -f "$key" ] || [ -L "$key" ]; then echo "no key" && return; fi
  public=$(openssl pkey -in "$key" -passin pass: -pubout -text_pub 2>/dev/null)
  case $public in *'ASN1 OID: prime256v1'*) ;; *) echo "not a P-256 key" && return ;; esac
  said=$(openssl req -in "$csr" -noout -pubkey -text -verify 2>&1) || :
  if ! printf '%s\n' "$said" | grep -qE '^(Certificate request self-signature )?verify OK$'; then
    echo "the request is missing or damaged"
  elif [ "${said#*"${public%%-----END*}"}" = "$said" ]; then
    echo "the request is of another key"
  elif [ "$(printf '%s\n' "$said" | sed -n 's/^ *DNS:/DNS:/p')" != "DNS:$hostname" ]; then
    echo "the request is for another hostname"
  else
    echo valid
  fi
}

activate() {
  mkdir -p "$tls"
  umask 077
  case $(state) in "no key" | "not a P-256 key")
    rm -rf "$key.new"
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out "$key.new"
    rm -rf "$key"
    replace "$key"
    ;;
  esac
  chown root:root "$key"
  chmod 0600 "$key"
  if [ "$(state)" != valid ]; then
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
