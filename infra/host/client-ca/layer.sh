# shellcheck shell=sh disable=SC2154
# The client-ca layer on the host. client-ca.ts lists its values.

activate() {
  [ -z "$changed" ] || { write_trust && reload_nginx; }
}

reactivate() { write_trust && reload_nginx; }

# The proxy layer leaves later. Until then nginx must not read a file that is about to be removed.
retire() {
  # shellcheck disable=SC2034 # write_trust reads it
  settled_ca=
  [ ! -e "$trusted_ca" ] || write_trust
}
