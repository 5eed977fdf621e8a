take_out() { nft delete table inet pushgate_egress 2>/dev/null || :; }

activate() {
  systemd-sysusers "$sysusers"
  for account in $homes; do settle_account "${account%%:*}" "${account#*:}" "${account%%:*}"; done
  start_unit
}

retire() {
  remove_other_accounts '' || return 1
  remove_units "$unit"
  take_out
}
