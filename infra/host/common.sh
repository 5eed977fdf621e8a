# What the scripts of several host layers share. kit.ts puts before it, as variables, the values that the layer's renderer
# names, and layer (its name), units, stamps and state (folders).

# layer.sh defines those that it needs.
reactivate() { :; }
retire() { :; }

# Names and lines of others: their control characters, and the line end of a name, would speak in pushgate's voice.
printable() { LC_ALL=C tr -c " -~${1-}" '?'; } # "\n" for lines

say() { { printf '%s: %s' "$layer" "$*" | printable; echo; } >&2; }

# Whether $1 is one of the words in $2.
among() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac }

# Whether the files of layer $1 are as its last apply installed them. A daemon takes up all of its files at once, those of
# later layers too: a manual change of one would fail the reload of an earlier layer, before its own layer restores it.
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

remove_empty() { for folder; do [ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty -- "$folder"; done; }

# By $1.new.
replace() { sync -- "$1.new" && mv -fT -- "$1.new" "$1"; }

lines_of() { journalctl -u "$1" -n 5 -o cat --no-pager | printable "\n" >&2; }

# Units whose files changed after systemd read them.
stale() {
  found=$(systemctl show -p Id -p NeedDaemonReload "$@" | sed -n '/^Id=/h;/^NeedDaemonReload=yes/{g;s/^Id=//p}')
  echo "${found:-none}"
}

# A daemon-reload has systemd read all files, which takes 0.2 s. It reads those of a new unit when that starts.
reload_stale() { [ "$(stale "$@")" = none ] || systemctl daemon-reload; }

# `enable` alone reloads, too.
enable_units() {
  systemctl enable --quiet --no-reload "$@"
  reload_stale "$@"
}

# Restarts service $1, and looks twelve times, 0.1 s apart, until the layer's `serves`, which may wait, succeeds. Fails where
# the service failed.
restart_and_watch() {
  systemctl reset-failed "$1" 2>/dev/null || :
  systemctl restart "$1"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    ! serves || return 0
    [ "$(systemctl show -p Result --value "$1")" = success ] || {
      say "$1 does not stay up. Its last journal lines:"
      lines_of "$1"
      exit 1
    }
    sleep 0.1
  done
}

modes() { stat -c '%n %a %U:%G' "$@" 2>/dev/null; }

newest() { stat -c %Y "$@" 2>/dev/null | sort -n | tail -n 1; }

# Whether service $1 is no older than its files, its unit's and $2..., and systemd has read its unit's files.
started_after() {
  [ "$(systemctl show -p NeedDaemonReload --value "$1")" = no ] || return 1
  began=$(systemctl show --timestamp=unix -p ExecMainStartTimestamp --value "$1") own=$units/$1
  shift
  [ "${began#@}" -ge "$(newest "$own" "$@")" ]
}

# Stops and disables those of the units whose files are there.
remove_units() {
  for unit; do
    [ ! -e "$units/$unit" ] || systemctl disable --quiet --now "$unit" || return 1
    systemctl reset-failed "$unit" 2>/dev/null || :
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

# The build accounts that pushgate made, except those that $1 lists: accounts of a site that left.
other_accounts() {
  made=$(sed -nE 's/^(pushgate-(build|generator|fetcher|report)-[^:]*):([^:]*:){3}pushgate (builder|generator|fetcher|reporter) of .*/\1/p' /etc/passwd)
  for account in $made; do among "$account" "$1" || echo "$account"; done
}

remove_other_accounts() {
  for account in $(other_accounts "$1"); do userdel "$account" || return 1; done
}
