# A change stops the sites' targets, has systemd read the files, and starts the targets that are enabled. A stop may end
# a build and loses nothing: the .path unit starts the next one. The site layer enables the target of a new site.

# The names of the folders in $1: each site has one, also a site whose files are gone.
names_in() { find "$1" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null || :; }

# By their names: once the generator's files are gone, its units are no part of the target.
stop_site() { of_site "$all" "$1" | xargs systemctl stop 2>/dev/null || :; }

remove_builder() { # hook
  stop_site "$1"
  systemctl disable --quiet "$(of_site "$siteTarget" "$1")" || :
  of_site "$all" "$1" | xargs systemctl reset-failed 2>/dev/null || :
  rm -f -- "$(of_site "$note" "$1")"
  rm -rf --one-file-system -- "${requests:?}/$1" "${rootRequests:?}/$1" "${generator:?}/$1" "${roots:?}/$1"
}

start_enabled() {
  enabled=
  for site in $built; do
    unit=$(of_site "$siteTarget" "$site")
    ! systemctl is-enabled --quiet "$unit" || enabled="$enabled $unit"
  done
  [ -n "$enabled" ] || return 0
  # Stopped targets stay loaded, without the drop-ins and the links that came since.
  systemctl daemon-reload
  for unit in $enabled; do systemctl start "$unit"; done
}

# A changed setting may call for a build, as another release of a program does: the builder compares, and decides.
compare_changed() {
  for site in $built; do
    case " $enabled " in *" $(of_site "$siteTarget" "$site") "*) ;; *) continue ;; esac
    case $changed in
      *"$(of_site "$settings" "$site")"*) systemctl start --no-block "$(of_site "$reconcile" "$site")" ;;
    esac
  done
}

# Folders and records of releases that no site names, and what a download left.
unnamed_tools() {
  for path in "$tools"/* "$tools"/.[!.]*; do
    tool=${path##*/}
    [ ! -e "$path" ] || among "${tool%.record}" "$named" || echo "$tool"
  done
}
remove_unnamed() { unnamed_tools | while read -r path; do rm -rf -- "${tools:?}/$path"; done; }

activate() {
  install_programs
  # Before systemd reads the units again: a timer without its drop-in would fail.
  for site in $(names_in "$rootRequests"); do
    stop_site "$site"
    among "$site" "$scheduled" || rm -f -- "$(of_site "$note" "$site")"
    ! among "$site" "$built" || continue
    remove_builder "$site"
    among "$site" "$hooks" || rmdir -- "$spool/$site" 2>/dev/null || :
  done
  # Results that wait for a reporter that left.
  for site in $(names_in "$reports"); do
    among "$site" "$reported" || rm -rf --one-file-system -- "${reports:?}/$site"
  done
  remove_empty "$reports"
  systemd-tmpfiles --create "$tmpfiles"
  start_enabled
  compare_changed
  remove_unnamed
  rm -rf "$incoming"
}

reactivate() {
  restore_programs
  for site in $(names_in "$rootRequests"); do stop_site "$site"; done
  start_enabled
}

# The site layer left before this one, so nothing starts a build any more and no web root leads into $sites.
retire() {
  for site in $(names_in "$rootRequests"); do remove_builder "$site"; done
  remove_programs
  rm -rf --one-file-system -- "$requests" "$rootRequests" "$generator" "$roots" "$reports" || exit 1
  remove_empty "$sites"
}

not_active() { # target that starts them while it is enabled, units
  target=$1 found=
  shift
  for state in $(systemctl is-active "$@"); do
    [ "$state" = active ] || found="$found $1"
    shift
  done
  [ -z "$found" ] || systemctl is-enabled --quiet "$target" || found=
  echo "${found:-none}"
}
