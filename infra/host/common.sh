# shellcheck shell=sh disable=SC2154
# What the scripts of several host layers share; layer.sh of each layer follows it.
# Values that kit.ts puts before it: layer (its name), units, stamps and state (folders).

# The steps of a layer beside `activate`; layer.sh defines those that it needs.
reactivate() { :; }
retire() { :; }

say() { printf '%s: %s\n' "$layer" "$*" >&2; }

# Whether the files of layer $1 are as its last apply installed them, by the list below its stamp. A daemon takes up
# all of its files at once, those of later layers too. If one of those was changed by hand, the reload of an earlier
# layer would fail in each `up`, before the layer that restores that file has its turn.
as_installed() {
  sed -n 's/^file \([0-9a-f]*\) [0-7]* [^ ]* /\1  /p' "$stamps/$1" 2>/dev/null | sha256sum --check --status 2>/dev/null
}

# The names in $1, of units or files, for hook $2: "%i" is the hook's place, as in a template's text.
of_site() { printf '%s\n' "$1" | sed "s/%i/$2/g"; }

# Makes folder $1 and its parents with mode $2. apply.sh removes those that `made` lists once they are empty again.
make_folder() {
  [ -z "$1" ] || [ -d "$1" ] || {
    make_folder "${1%/*}" "$2" && printf '%s\n' "$1" >>"$state/made" && sync -- "$state/made" && mkdir -m "$2" -- "$1"
  }
}

# Restarts services $3..., and fails where a service does not keep property and value $1 for 1.2 s; the error says $2,
# which is what the service does instead.
restart_and_watch() {
  kept=$1 instead=$2
  shift 2
  systemctl reset-failed "$@" 2>/dev/null || :
  begun=$(date +%s)
  systemctl restart "$@"
  for _ in 1 2 3 4 5 6; do
    sleep 0.2
    for unit; do
      [ "$(systemctl show --property="${kept%=*}" "$unit")" = "$kept" ] || {
        say "$unit $instead. Its last journal lines:"
        journalctl -u "$unit" --since "@$begun" -n 10 -o cat --no-pager >&2
        exit 1
      }
    done
  done
}

# For `reactivate`: stops the units whose new files a failed apply removed, and removes the links that enable them,
# which `systemctl disable` does only while the file exists. Units whose former file is back stay as they are.
forget_missing() {
  for unit; do
    [ ! -e "$units/$unit" ] || continue
    systemctl stop "$unit" 2>/dev/null
    systemctl reset-failed "$unit" 2>/dev/null
    find "$units" -mindepth 2 -maxdepth 2 -type l -name "$unit" -printf '%h\n' -delete |
      xargs -r rmdir --ignore-fail-on-non-empty
  done
  systemctl daemon-reload
}
