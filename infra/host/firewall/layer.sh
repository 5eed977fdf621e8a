# shellcheck shell=sh disable=SC2154
# The firewall layer on the host. Values: unit, rules (the nft file).

activate() {
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
  # A restart is one nft transaction: there is no moment without the rules.
  systemctl restart "$unit"
}

restore() {
  forget_missing "$unit"
  if [ -f "$rules" ]; then
    systemctl restart "$unit"
  else
    nft delete table inet pushgate 2>/dev/null || :
  fi
}

retire() {
  systemctl disable --now --quiet "$unit" 2>/dev/null
  nft delete table inet pushgate 2>/dev/null
  :
}
