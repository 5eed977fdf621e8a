# Without the system's authorities, which openssl x509 reads in two thirds of its time, and does not need here.
export LC_ALL=C SSL_CERT_FILE=/dev/null

# Prints what is wrong with the certificate in $1, or nothing.
certificate_fault() {
  # Runs openssl once for all of this: its start is most of the cost.
  said=$(openssl x509 -in "$1" -noout -pubkey -ext subjectAltName -enddate -checkend 0 2>/dev/null) || :
  names=$(printf '%s\n' "$said" | sed -n '/DNS:/s/,* *DNS:/ /gp')
  public=$(openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null) || public="no key"
  case $said in
    *"$public"*) ;;
    *"BEGIN PUBLIC KEY"*) echo "does not match the key on this host: Cloudflare signed it from another request" && return ;;
    *) echo "is not a certificate" && return ;;
  esac
  for hostname in $hostnames; do among "$hostname" "$names" || { echo "is not for $hostname"; return; }; done
  case $said in *'Certificate will expire') echo "expired: $(printf '%s\n' "$said" | sed -n '/^notAfter=/p')" ;; esac
}

# Rejects the new file $1 before it is installed.
check() {
  fault=$(certificate_fault "$1")
  [ -z "$fault" ] || { echo "the certificate $fault" >&2; exit 1; }
}

state() {
  fault=$(certificate_fault "$certificate")
  echo "${fault:-valid}"
}

# A restart, which loses no delivery: nginx gets a new key, too. If a manual change keeps it from starting, the proxy layer
# restarts it later in the same `up`.
take_up() { ! as_installed proxy || systemctl try-restart "$nginx"; }

activate() { case "$changed" in *"$certificate"*) take_up ;; esac }
# nginx keeps the certificate that it serves with where the former file does not fit, as after a manual change.
reactivate() { [ "$(state)" != valid ] || take_up; }
