# shellcheck shell=sh disable=SC2154
# The client-ca layer on the host. Values: none.

activate() {
  [ -z "$changed" ] || reload_nginx
}

reload_nginx() {
  if systemctl is-active --quiet nginx.service; then
    nginx -t -q
    systemctl reload nginx.service
  fi
}
