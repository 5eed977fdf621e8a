# shellcheck shell=sh disable=SC2154
# The egress layer on the host. Values: unit, needs (the program) and sysusers (paths), accounts (list).

take_out() { nft delete table inet pushgate_egress 2>/dev/null || :; }

activate() {
  systemd-sysusers "$sysusers"
  activate_unit
}

retire() {
  for account in $accounts; do
    ! id "$account" >/dev/null 2>&1 || userdel "$account" || return 1
  done
  retire_unit
}

groups_of_accounts() {
  for account in $accounts; do id -nG "$account" 2>/dev/null; done
}
