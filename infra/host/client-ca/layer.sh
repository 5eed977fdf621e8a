# shellcheck shell=sh disable=SC2154
# The client-ca layer on the host. Values: none.

activate() {
  [ -z "$changed" ] || reload_nginx
}

restore() { reload_nginx; }
