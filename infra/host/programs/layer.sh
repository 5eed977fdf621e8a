# `program`: the program's name, and that of the layer whose units run it.
arrived=$incoming/$sha256.cjs
former=$incoming/former-$program.cjs

sum_of() { sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1; }

put() { # file
  chmod 0644 "$1"
  mv "$1" "$path.new"
  replace "$path"
}

# Never a socket or a path.
restart_running() {
  as_installed "$program" || return 0
  active=
  for unit in $running; do
    ! systemctl is-active --quiet "$unit" || active="$active $unit"
  done
  # shellcheck disable=SC2086
  [ -z "$active" ] || restart_and_watch false $active
}

activate() {
  if [ "$(sum_of "$path")" != "$sha256" ]; then
    echo "$sha256  $arrived" | sha256sum -c --status - || {
      say "$arrived is missing or has another hash. Run \`npx pulumi up\` again, which sends it."
      exit 1
    }
    make_folder "$lib" 0755
    [ ! -f "$path" ] || cp -p "$path" "$former"
    put "$arrived"
    restart_running
  fi
  rm -rf "$incoming"
  chown root:root "$path"
  chmod 0644 "$path"
}

reactivate() {
  set -e
  [ -f "$former" ] || return 0
  put "$former"
  for unit in $running; do
    ! systemctl is-failed --quiet "$unit" || systemctl reset-failed "$unit"
    ! systemctl cat "$unit" >/dev/null 2>&1 || systemctl restart "$unit"
  done
}

retire() {
  rm -rf "$path" "$path.new" "$incoming"
  remove_empty "$lib"
}
