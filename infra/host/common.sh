# What the scripts of several host layers share. kit.ts puts before it, as variables, the values that the layer's renderer
# names, and layer (its name), units, stamps and state (folders).

# layer.sh defines those that it needs.
reactivate() { :; }
retire() { :; }

# Names and lines of others: their control characters, and the line end of a name, would speak in pushgate's voice.
printable() { LC_ALL=C tr -c " -~${1-}" '?'; } # "\n" for lines

# The reader may be gone, as where Ctrl-C ended the connection.
say() { { printf '%s: %s' "$layer" "$*" | printable; echo; } >&2 || :; }

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
replace() {
  chattr -ia -- "$1" 2>/dev/null || :
  sync -- "$1.new" && mv -fT -- "$1.new" "$1"
}

lines_of() { journalctl -u "$1" -n 5 -o cat --no-pager | printable "\n" >&2; }

# Units whose files changed after systemd read them. systemd looks into all folders for each unit, which takes 2 ms, so it is
# not queried in a probe that found all of them read (`read_shared` of fact.sh).
stale() {
  [ "${all_read-}" != yes ] || { echo none && return; }
  shown=$(systemctl show -p Id -p NeedDaemonReload "$@") || { echo unknown && return; }
  found=$(printf '%s\n' "$shown" | sed -n '/^Id=/h;/^NeedDaemonReload=yes/{g;s/^Id=//p}')
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

# Whether a service's unit noted as $1 what the shell text $2 prints now (kit.ts).
noted() { [ "$(eval "$2")" = "$(cat "$starts/$1" 2>/dev/null)" ]; }

# The files of service $1's processes that were replaced, such as its program or a library. The service is in a slice of the
# top level. The kernel lists its processes in a tenth of the time that systemctl takes to name one.
replaced_under() {
  # shellcheck disable=SC2046
  cat /dev/null $(sed 's|.*|/proc/&/maps|' /sys/fs/cgroup/*.slice/"$1"/cgroup.procs 2>/dev/null) 2>/dev/null |
    awk '$NF == "(deleted)" && $6 ~ "^/usr/" && !seen[$6]++ { printf "%s%s", n++ ? " " : "", $6 }'
}

# Fact: "yes" if service $1 noted at its start what $2 prints, systemd has read its unit's files, and no file that it runs
# from was replaced.
runs_installed() {
  if [ "$(stale "$1")" != none ] || ! noted "$1" "$2"; then echo no && return; fi
  replaced=$(replaced_under "$1")
  echo "${replaced:+replaced since its start: }${replaced:-yes}"
}

# Home and groups of each of the accounts $1..., its shell if a login has one, and who else is in a group of these names.
accounts() {
  awk -F: -v names=" $* " 'function named(name) { return index(names, " " name " ") }
    FILENAME ~ /group$/ { group[$3] = $1; n = split($4, member, ",")
      for (i = 1; i <= n; i++) { of[member[i]] = of[member[i]] " " $1; if (named($1)) print member[i] " is in the group " $1 }
      next }
    named($1) { print $1, $6, group[$4] of[$1] ($7 ~ /\/nologin$/ ? "" : " may log in with " $7) }' /etc/group /etc/passwd
}

# In a process namespace, as usermod changes no home of an account that has processes.
# Its own group has no other members; another one, such as the spool's, has those that the operator adds.
settle_account() { # name, home, group
  [ "$(accounts "$1")" = "$1 $2 $3" ] || {
    unshare --fork --pid --mount-proc usermod -d "$2" -s /usr/sbin/nologin -g "$3" -G '' "$1" &&
      { [ "$1" != "$3" ] || gpasswd -M '' "$3"; }
  } >&2
}

# Prints "as declared", or the lines that only standard input or only $1 has.
unlike() {
  declared=$1 awk 'BEGIN { n = split(ENVIRON["declared"], line, "\n"); while (n) missing[line[n--]]++ }
    missing[$0] > 0 { missing[$0]--; next }
    { print "undeclared: " $0; other = 1 }
    END {
      for (each in missing) while (missing[each]-- > 0) { print "missing: " each; other = 1 }
      if (!other) print "as declared"
    }'
}

# Stops and disables those of the units whose files are there.
remove_units() {
  for unit; do
    rm -f "$starts/$unit"
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
