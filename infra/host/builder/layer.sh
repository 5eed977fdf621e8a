# shellcheck shell=sh disable=SC2154
# The builder layer on the host. builder.ts lists its values.
#
# A running build goes on when its .path unit or Hugo's units change, as each build reads those anew. It is restarted
# where its own unit or settings changed, which costs a build and loses nothing.

# Stops the units of hook $1, whose files may be gone, and removes the links that enable them.
stop_units() {
  path=pushgate-build-$1.path build=pushgate-build-$1.service timer=pushgate-reconcile-$1.timer
  socket=pushgate-hugo-$1.socket
  systemctl stop "$path" "$timer" "$build" "$socket" "pushgate-hugo-$1@*.service" 2>/dev/null || :
  systemctl reset-failed "$path" "$build" "$timer" "pushgate-reconcile-$1.service" 2>/dev/null || :
  find "$units" -mindepth 2 -maxdepth 2 -type l \( -name "$path" -o -name "$timer" -o -name "$socket" \) \
    -printf '%h\n' -delete | xargs -r rmdir --ignore-fail-on-non-empty || :
}

# Also puts the deliveries of hook $1 that were taken and not published back into the spool.
remove_builder() {
  stop_units "$1"
  [ -d "$spool/$1/.taken" ] || return 0
  find "$spool/$1/.taken" -mindepth 1 -maxdepth 1 -type f -exec mv -nt "$spool/$1" {} +
  rm -rf -- "$spool/$1/.taken"
}

# The hook whose build service is file $1.
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
    case $file in */pushgate-build-*.service) ;; *) continue ;; esac
    [ ! -e "$file" ] || continue
    hook_of "$file"
    remove_builder "$hook"
    rm -rf -- "${requests:?}/$hook"
    case " $hooks " in *" $hook "*) ;; *) rmdir -- "$spool/$hook" 2>/dev/null || : ;; esac
  done
  systemd-tmpfiles --create "$tmpfiles"
  systemctl daemon-reload
  for file in $changed; do
    [ -e "$file" ] || continue
    name=${file##*/}
    case $name in
      pushgate-build-*.service | pushgate-build-*.path | pushgate-reconcile-*.timer) systemctl try-restart "$name" ;;
      *.json | *.known_hosts) systemctl try-restart "pushgate-build-${name%.*}.service" ;;
      pushgate-hugo-*.socket) systemctl stop "$name" ;;
    esac
  done
  rmdir --ignore-fail-on-non-empty "$units"/pushgate-build-*.d "$units"/pushgate-hugo-*.d "$units"/pushgate-reconcile-*.d \
    2>/dev/null || :
  # shellcheck disable=SC2086
  systemctl enable --quiet $sockets
  # shellcheck disable=SC2086
  systemctl start $sockets
}

restore() {
  systemctl daemon-reload
  for file in $changed; do
    name=${file##*/}
    case $name in
      pushgate-build-*.service)
        hook_of "$file"
        if [ -e "$file" ]; then systemctl try-restart "$name"; else stop_units "$hook"; fi
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
  rm -rf -- "$requests" "$hugo" || exit 1
  [ ! -d "$sites" ] || rmdir --ignore-fail-on-non-empty "$sites"
}

# Facts

# Whether Hugo at path $1 is of version $2 or later.
hugo_version() {
  found=$(timeout 4 "$1" version 2>/dev/null | sed -n 's/^hugo[^0-9]*v\{0,1\}\([0-9][0-9.]*[0-9]\).*/\1/p')
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
