# shellcheck shell=sh disable=SC2154
# For a layer of one oneshot unit, `unit`, which needs the file `needs` and places something in the kernel. The layer.sh
# of such a layer defines `take_out`, which removes what the unit placed.

activate_unit() {
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
  systemctl restart "$unit" || {
    journalctl -u "$unit" -n 5 -o cat --no-pager >&2
    return 1
  }
}

reactivate() {
  forget_missing "$unit"
  if [ -e "$needs" ]; then systemctl restart "$unit"; else take_out; fi
}

retire_unit() {
  systemctl disable --now --quiet "$unit" 2>/dev/null
  take_out
}

activate() { activate_unit; }
retire() { retire_unit; }
