# shellcheck shell=sh disable=SC2154
# The builder layer on the host. builder.ts lists its values.
#
# A builder goes on when its .path unit or Hugo's units change, as each build reads those anew. A change of its own unit
# or settings restarts it, which may end a build and loses nothing.

# Ends the schedule of hook $1, whose files may be gone: the timer, the link that enables it, and when it last elapsed.
end_schedule() {
  timer=pushgate-schedule-$1.timer
  systemctl stop "$timer" 2>/dev/null || :
  systemctl reset-failed "$timer" "${timer%.timer}.service" 2>/dev/null || :
  remove_links "$timer"
  rm -f -- "/var/lib/systemd/timers/stamp-$timer"
}

# Ends the reports of hook $1, whose files may be gone, with those that wait.
end_reports() {
  report=pushgate-report-$1
  systemctl stop "$report.path" "$report.service" 2>/dev/null || :
  systemctl reset-failed "$report.path" "$report.service" 2>/dev/null || :
  remove_links "$report.path"
  rm -rf --one-file-system -- "${reports:?}/$1"
  [ ! -d "$reports" ] || rmdir --ignore-fail-on-non-empty "$reports"
}

remove_links() { # unit
  find "$units" -mindepth 2 -maxdepth 2 -type l -name "$1" -printf '%h\n' -delete |
    xargs -r rmdir --ignore-fail-on-non-empty || :
}

# Stops the units of hook $1, whose files may be gone, and removes the links that enable them.
stop_units() {
  path=pushgate-build-$1.path build=pushgate-build-$1.service timer=pushgate-reconcile-$1.timer
  socket=pushgate-hugo-$1.socket agent=pushgate-agent-$1.service
  systemctl stop "$path" "$timer" "$build" "$socket" "pushgate-hugo-$1@*.service" "$agent" 2>/dev/null || :
  systemctl reset-failed "$path" "$build" "$timer" "$agent" "pushgate-reconcile-$1.service" 2>/dev/null || :
  for unit in "$path" "$timer" "$socket"; do remove_links "$unit"; done
  end_schedule "$1"
  end_reports "$1"
}

# Removes hook $1's builder.
remove_builder() {
  stop_units "$1"
  rm -rf --one-file-system -- "${requests:?}/$1" "${rootRequests:?}/$1"
}

# Prints the service that has read file $1: its unit, a drop-in of it, or its settings.
reader_of() {
  name=${1##*/}
  case $1 in
    */pushgate-agent-*.service.d/* | */pushgate-build-*.service.d/* | */pushgate-report-*.service.d/*)
      name=${1%.service.d/*} name=${name##*/}
      # A drop-in folder with a dash before `.service.d` is for all units whose names begin so.
      case $name in *-) name="$name*" ;; esac
      echo "$name.service"
      ;;
    */pushgate-agent-*.service | */pushgate-build-*.service | */pushgate-report-*.service) echo "$name" ;;
    */reporter/*.json) echo "pushgate-report-${name%.json}.service" ;;
    *.json | *.known_hosts) echo "pushgate-build-${name%.*}.service" ;;
  esac
}

# A running service goes on with what it has read, also of a drop-in that is gone.
restart_readers() {
  for file in $changed; do reader_of "$file"; done | sort -u | while read -r unit; do
    ! systemctl is-active --quiet "$unit" || systemctl restart "$unit"
  done
}

# Sets `hook` to the name in the path of build service $1.
hook_of() {
  hook=${1##*/pushgate-build-} hook=${hook%.service}
}

activate() {
  for group in $writers; do
    getent group "$group" >/dev/null || {
      say "\`site.writers\` names the group $group, which this host does not have. Run groupadd $group, or remove \`writers\`."
      exit 1
    }
  done
  # For hooks that have no site any more, before systemd reads the units again: a timer without its service would fail.
  for file in $changed; do
    [ ! -e "$file" ] || continue
    case $file in
      */pushgate-schedule-*.timer)
        name=${file##*/pushgate-schedule-}
        end_schedule "${name%.timer}"
        continue
        ;;
      */pushgate-report-*.path)
        name=${file##*/pushgate-report-}
        end_reports "${name%.path}"
        continue
        ;;
      */pushgate-agent-*.service)
        systemctl stop "${file##*/}" 2>/dev/null || :
        continue
        ;;
      */pushgate-build-*.service) ;;
      *) continue ;;
    esac
    hook_of "$file"
    remove_builder "$hook"
    case " $hooks " in *" $hook "*) ;; *) rmdir -- "$spool/$hook" 2>/dev/null || : ;; esac
  done
  systemd-tmpfiles --create "$tmpfiles"
  systemctl daemon-reload
  restart_readers
  for file in $changed; do
    [ -e "$file" ] || continue
    name=${file##*/}
    case $name in
      pushgate-build-*.path | pushgate-reconcile-*.timer | pushgate-report-*.path | pushgate-schedule-*.timer) systemctl try-restart "$name" ;;
      pushgate-hugo-*.socket | pushgate-stop-*.socket) systemctl stop "$name" ;;
    esac
  done
  # shellcheck disable=SC2086
  systemctl enable --quiet $started
  # shellcheck disable=SC2086
  systemctl start $started
}

reactivate() {
  systemctl daemon-reload
  restart_readers
  for file in $changed; do
    name=${file##*/}
    case $name in
      pushgate-agent-*.service) [ -e "$file" ] || systemctl stop "$name" ;;
      pushgate-build-*.service)
        hook_of "$file"
        [ -e "$file" ] || stop_units "$hook"
        ;;
      pushgate-report-*.path)
        name=${name#pushgate-report-}
        if [ -e "$file" ]; then systemctl restart "pushgate-report-$name"; else end_reports "${name%.path}"; fi
        ;;
      pushgate-hugo-*.socket) [ ! -e "$file" ] || systemctl restart "$name" ;;
    esac
  done
  :
}

# The site layer left before this one, so nothing starts a build any more and no web root leads into $sites.
retire() {
  for file in "$units"/pushgate-build-*.service; do
    [ -e "$file" ] || continue
    hook_of "$file"
    remove_builder "$hook"
  done
  rm -rf --one-file-system -- "$requests" "$rootRequests" "$hugo" "$reports" || exit 1
  [ ! -d "$sites" ] || rmdir --ignore-fail-on-non-empty "$sites"
}

# Facts

# Prints whether Hugo at path $1 is of version $2 or later. Runs Hugo as account $3, which builds, or, before that
# account exists, as account 65534, which owns nothing: never as root.
hugo_version() {
  others=$(written_by_others "$1" | head -n 1)
  [ -z "$others" ] || {
    echo "not root's alone: the account $(stat -c %U:%G -- "$others") can write $others; run chown root:root $others && chmod go-w $others"
    return
  }
  user=$(id -u "$3" 2>/dev/null) || user=65534
  found=$(cd / && timeout -k 1 4 env -i PATH=/usr/bin:/bin HOME=/nonexistent \
    setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all -- "$1" version 2>/dev/null </dev/null | sed -n 's/^hugo[^0-9]*v\{0,1\}\([0-9][0-9.]*[0-9]\).*/\1/p')
  if [ -z "$found" ]; then
    echo "missing or not Hugo; install Hugo $2 or later, and set \`site.hugo.path\` to it"
  elif [ "$(printf '%s\n' "$2" "$found" | sort -V | head -n 1)" = "$2" ]; then
    echo "$2 or later"
  else
    echo "$found; install Hugo $2 or later, and set \`site.hugo.path\` to it"
  fi
}

# The units among $@ whose files changed after systemd read them, or "none".
stale() {
  found=$(systemctl show -p Id -p NeedDaemonReload "$@" | sed -n '/^Id=/h;/^NeedDaemonReload=yes/{g;s/^Id=//p}')
  echo "${found:-none}"
}

modes() { stat -c '%n %a %U:%G' "$@" 2>/dev/null; }
