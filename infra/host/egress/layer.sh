# shellcheck shell=sh disable=SC2154
# The egress layer on the host. Values: unit, program and sysusers (paths), accounts (list).

activate() {
  systemd-sysusers "$sysusers"
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
  systemctl restart "$unit" || {
    journalctl -u "$unit" -n 5 -o cat --no-pager >&2
    return 1
  }
}

restore() {
  forget_missing "$unit"
  if [ -x "$program" ]; then
    systemctl restart "$unit"
  else
    nft delete table inet pushgate_egress 2>/dev/null || :
  fi
}

retire() {
  systemctl disable --now --quiet "$unit" 2>/dev/null
  for account in $accounts; do
    ! id "$account" >/dev/null 2>&1 || userdel "$account" || return 1
  done
  nft delete table inet pushgate_egress 2>/dev/null
  :
}

groups_of_accounts() {
  for account in $accounts; do id -nG "$account" 2>/dev/null; done
}
