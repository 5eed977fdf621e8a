# For a layer of one oneshot unit, `unit`, which needs the file `needs` and places something in the kernel. The layer.sh
# of such a layer defines `take_out`, which removes what the unit placed.

start_unit() {
  enable_units "$unit"
  systemctl restart "$unit" || {
    lines_of "$unit"
    return 1
  }
}

activate() { start_unit; }

reactivate() {
  forget_missing "$unit"
  if [ -e "$needs" ]; then systemctl restart "$unit"; else take_out; fi
}

retire() {
  remove_units "$unit"
  take_out
}
