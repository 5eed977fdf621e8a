take_out() { nft delete table inet pushgate_egress 2>/dev/null || :; }

activate() {
  systemd-sysusers "$sysusers"
  start_unit
}

retire() {
  remove_other_accounts '' || return 1
  remove_units "$unit"
  take_out
}

groups_of() { for account; do id -nG "$account" 2>/dev/null; done; }
