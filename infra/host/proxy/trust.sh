# shellcheck shell=sh disable=SC2154
# Writes which CA nginx trusts beside the newest one; both layers that install a CA do so. Values: client_ca, settled_ca
# (CAs), trusted_ca (what nginx includes).

declared_trust() {
  if [ -s "$settled_ca" ]; then echo "ssl_trusted_certificate $settled_ca;"; else echo "ssl_trusted_certificate $client_ca;"; fi
}

write_trust() {
  declared_trust >"$trusted_ca.new" && chmod 0644 "$trusted_ca.new" && sync "$trusted_ca.new" &&
    mv -fT -- "$trusted_ca.new" "$trusted_ca"
}
