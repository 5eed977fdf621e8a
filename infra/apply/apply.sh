# shellcheck shell=dash disable=SC2154
# Brings one layer to this host, or removes it. manifest.ts appends the layer's values, and the call on the last line: a
# text that was cut runs nothing. Root runs it in a transient unit, so a lost connection does not stop the apply.
#
# An arriving layer:
# 1. writes each new file aside and checks it with its real parser, then saves what it will replace;
# 2. writes the new files beside their targets with owner, mode and fsync, then removes the old stamp, with fsync;
# 3. renames all of them, one after the other, then removes paths that the layer owns and no longer declares;
# 4. activates, confirms the facts and writes the stamp LAST.
# A kill or a power cut therefore leaves no valid stamp, and the next apply repairs it. A failure restores the former files
# and runs `reactivate`. It leaves out manual changes that may not have been in effect, where it has what the last apply
# installed. What a successful apply did is on the disk.
#
# Under `state`: stamps/<layer>, the stamp and below it the list of what is installed; made, the folders that applies
# made; pending/<layer>, the paths changed since the layer was last in sync; work, only while an apply runs.

nl='
'
exists() { [ -e "$1" ] || [ -L "$1" ]; }
is_folder() { [ -d "$1" ] && [ ! -L "$1" ]; }
is_line() { case $nl$2$nl in *"$nl$1$nl"*) ;; *) return 1 ;; esac } # line, text
# A file's name or a parser's text may hold anything: a line end in a name would begin a line in pushgate's voice.
printable() { LC_ALL=C tr -c " -~${1-}" '?'; } # "\n" for lines
say() { { printf 'pushgate: %s: %s' "$layer" "$*" | printable; echo; } >&2; }

fail() { # step, what is wrong, fix
  trap '' TERM INT HUP
  say "failed at: $1"
  [ -z "$2" ] || printf '%s\n' "$2" | printable "\t\n" | sed 's/^[^ ]/  &/' >&2
  say "fix: $3"
  if [ "$files_changed" = 1 ]; then
    restore_former
  elif [ "$present" = 1 ]; then
    say "nothing was changed"
  else
    say "the removal is not finished; the next \`npx pulumi up\` continues it"
  fi
  clean_up
  exit 1
}

# A kill or a power cut may have cut the list's last line, so only names of this form count.
drop_temps() {
  [ ! -f "$work/temps" ] || while read -r temp; do
    case $temp in */.*.pushgate-new) rm -rf -- "$temp" ;; esac
  done <"$work/temps"
}

# Removes folders that applies made and that are empty again, deepest first. A folder in use stays listed; so does one
# whose path leads elsewhere by now.
drop_empty_folders() {
  [ -f "$state/made" ] || return 0
  # One find looks at all folders, and one at each only after a removal, which may empty the folder above.
  # shellcheck disable=SC2046
  empty=$(find $(cat -- "$state/made") -maxdepth 0 -empty 2>/dev/null)
  removed=0
  # Written aside: a full disk must not shorten the list.
  sort -ru -- "$state/made" | while read -r folder; do
    is_folder "$folder" || continue
    above=${folder%/*}
    { { [ "$removed" = 1 ] || is_line "$folder" "$empty"; } && [ -n "$(find "$folder" -maxdepth 0 -empty)" ] &&
      (cd -P -- "$above/" && [ "$(pwd -P)" = "${above:-/}" ] && rmdir -- "./${folder##*/}") 2>/dev/null && removed=1; } ||
      printf '%s\n' "$folder" || exit 1
  done >"$state/made.new" && sync -- "$state/made.new" && mv -f -- "$state/made.new" "$state/made"
  [ -s "$state/made" ] || rm -f -- "$state/made"
}

clean_up() {
  drop_temps
  drop_empty_folders
  rm -rf -- "$work"
  rmdir -- "$state/pending" "$state/stamps" "$state" 2>/dev/null || :
}

make_folder() {
  [ ! -d "$1" ] || return 0
  make_folder "${1%/*}" || return 1
  printf '%s\n' "$1" >>"$state/made" && sync -- "$state/made" && mkdir -m 0755 -- "$1"
}

# A hidden name beside the target, which no include pattern matches.
temp_of() { temp=${1%/*}/.${1##*/}.pushgate-new; }

# Sets `manual` to the touched paths that are now as the last apply left them: what was there before is a manual change.
find_manual() {
  [ -n "$applied" ] || return 0
  for path in $touched; do
    if is_line "$path" "$declared"; then
      for line in $installed; do
        case $line in "file "*" $path") ! is_line "$line" "$applied" || manual="$manual$path$nl" ;; esac
      done
    else
      case $applied$nl in *" $path$nl"* | *" $path/"*) ;; *) manual="$manual$path$nl" ;; esac
    fi
  done
}

# Begins the shell of a layer: it reads the changed paths, up to an empty line. Those of many sites are longer than a
# variable of the environment may be, 128 KiB.
# shellcheck disable=SC2016 # for that shell
take_changed='changed=; while IFS= read -r path && [ -n "$path" ]; do changed="$changed$path
"; done'
# shellcheck disable=SC2086 # a path a line
give_changed() { printf '%s\n' $1 ''; }

restore() { # touched paths that stay as they are
  for path in $touched; do
    ! is_line "$path" "$1" || continue
    temp_of "$path"
    if exists "$work/old$path"; then
      ! is_folder "$path" || rm -rf --one-file-system -- "$path"
      # `work` may be on another disk: copies beside the target, and syncs again, before the rename.
      { rm -rf -- "$temp" && make_folder "${path%/*}" && cp -a -- "$work/old$path" "$temp" &&
        find "$temp" -type f -exec sync -- {} + && mv -fT -- "$temp" "$path"; } ||
        { complete=0; say "could not restore $path"; }
    else
      rm -f -- "$path" || { complete=0; say "could not remove $path"; }
    fi
  done
  # Before `activate`, what runs is still what the last apply left.
  { [ "$activated" = 0 ] && [ -n "$applied" ]; } ||
    give_changed "$touched" | sh -c "$take_changed$nl$script$nl$reactivate" sh >&2
}

restore_former() {
  say "restoring the former files"
  complete=1
  [ "$activated" = 1 ] || manual=
  # A manual change that is in effect comes back where the installed files do not work.
  restore "$manual" || { [ -n "$manual" ] && restore ""; } ||
    { complete=0; say "activating the former files failed, see above"; }
  if [ "$complete" = 1 ]; then
    say "the former files are back and active"
  else
    say "the former state is NOT complete; fix the cause, then run \`npx pulumi up\` again"
  fi
}

# `manifest` calls `file` and `fact` for each declared one; what they do depends on the phase.
walk() { phase=$1 && manifest; }

file() { # path mode owner check text
  case $phase in
    candidates)
      declared="$declared$1$nl"
      { mkdir -p -- "$work/new${1%/*}" && printf %s "$5" >"$work/new$1"; } || fail "writing the candidate of $1" "" "$full"
      ! is_folder "$1" || fail "$1" "it is a folder, and declared is a file" "move the folder away"
      ;;
    check)
      [ -z "$4" ] || staged=$work/new sh -ec "$script$nl$4" check "$work/new$1" >"$work/output" 2>&1 </dev/null ||
        fail "check of $1" "$(tail -n 20 "$work/output")" "this host's own parser rejects the rendered file; change the configuration, or the version of the software named above"
      if [ -f "$1" ] && [ ! -L "$1" ] && cmp -s -- "$work/new$1" "$1" &&
        [ "0$(stat -c '%a %U:%G' -- "$1")" = "$2 $3" ]; then return; fi
      touched="$touched$1$nl"
      ;;
    write)
      is_line "$1" "$touched" || return 0
      make_folder "${1%/*}" || fail "making the folder of $1" "" "$full"
      temp_of "$1"
      { rm -rf -- "$temp" && (umask 077 && set -C && cat -- "$work/new$1" >"$temp") && chown -- "$3" "$temp" &&
        chmod -- "$2" "$temp"; } || fail "writing $1 beside its place" "" "$full, and the account $3 must exist"
      temps="$temps$temp$nl"
      ;;
    rename)
      is_line "$1" "$touched" || return 0
      temp_of "$1"
      mv -fT -- "$temp" "$1" || fail "renaming $1 into place" "" "see whether ${1%/*} is writable (chattr, read-only mount)"
      ;;
  esac
}

fact() { # name read want
  [ "$phase" = facts ] || return 0
  facts=$((facts + 1))
  # Side by side, as most of a fact's time is a wait for systemd.
  {
    out=$(timeout -k 1 5 sh -c "$script$nl$2" 2>"$work/output.$facts" </dev/null)
    status=$?
    out=$(printf '%.2048s' "$out")
    out=${out#"${out%%[![:space:]]*}"}
    out=${out%"${out##*[![:space:]]}"}
    { [ "$out" = "$3" ] && [ "$status" != 124 ] && [ "$status" != 137 ]; } ||
      printf '  %s: declared is "%s", the host reports "%s" (exit %s)%s\n' "$1" "$3" "$out" "$status" \
        "$(sed 's/^/; /;q' "$work/output.$facts")"
  } >"$work/fact.$facts" &
}

# Sets `unmet` to a line for each fact that is not as declared.
read_facts() {
  facts=0
  walk facts
  wait
  # shellcheck disable=SC2046
  unmet=$(cat -- $(seq -f "$work/fact.%g" "$facts") </dev/null)
}

# Daemons settle a moment after their reload: for two seconds.
facts_hold() {
  for _ in 1 2 3 4 5 6 7 8 9; do
    read_facts
    [ -n "$unmet" ] || return 0
    sleep 0.25
  done
  return 1
}

run_activate() { # changed paths
  activated=1
  # A pipe from a shell function: what `input` prints, such as secrets, is in no argv, no environment and no file.
  { give_changed "$1" && input; } | sh -ec "$take_changed$nl$script$nl$activate" sh >&3 ||
    fail "activate" "exit $?; its output is above" "$look"
}

# Sets `strays` to what the globs match and the layer does not declare, except folders on the way to a declared file.
find_strays() {
  strays=
  set +f
  for path in $owns; do
    exists "$path" || continue
    case $nl$declared in *"$nl$path$nl"* | *"$nl$path/"*) continue ;; esac
    case $path in *"$nl"*) fail "$path" "its name holds a line end" "move it away" ;; esac
    case $nl$strays in *"$nl$path$nl"*) ;; *) strays="$strays$path$nl" ;; esac
  done
  set -f
}

remove_strays() {
  for path in $strays; do
    rm -rf --one-file-system -- "$path" || fail "removing $path" "" "see whether it can be removed (chattr, mount)"
  done
  # Folders of drop-ins that are empty now, or that a person has emptied. Each has a glob of its own in `owns`.
  for path in $owns; do
    case $path in *.d/\*.conf) ;; *) continue ;; esac
    set +f
    for folder in ${path%/*}; do ! is_folder "$folder" || rmdir -- "$folder" 2>/dev/null || :; done
    set -f
  done
}

# The folder of each path, or the nearest one above that exists.
sync_folders() { # paths
  for path in $1; do
    path=${path%/*}
    until [ -d "${path:-/}" ]; do path=${path%/*}; done
    printf '%s\n' "${path:-/}"
  done | sort -u >"$work/folders"
  # shellcheck disable=SC2046
  [ ! -s "$work/folders" ] || sync -- $(cat "$work/folders")
}

write_stamp() { # stamp, list of what is installed
  new=$state/stamps/.$layer.new
  { printf '%s\n%s' "$1" "$2" >"$new" && sync -- "$new" && rm -rf -- "$state/stamps/$layer" &&
    mv -fT -- "$new" "$state/stamps/$layer" && sync -- "$state/stamps"; } || fail "writing the stamp" "" "$full"
}

arrive() {
  walk candidates
  walk check
  find_strays
  touched="$touched$strays"
  applied=$(sed 1d -- "$state/stamps/$layer" 2>/dev/null)
  find_manual
  for path in $touched; do
    exists "$path" || continue
    { mkdir -p -- "$work/old${path%/*}" && cp -a -- "$path" "$work/old$path"; } || fail "saving the former $path" "" "$full"
  done
  # A person's immutable bit (chattr +i) would keep the renames from their places. The folders are not pushgate's alone.
  for path in $touched; do chattr -ia -- "$path" 2>/dev/null || :; done
  # Before the first one is written, so that the next apply removes what a kill leaves.
  { for path in $touched; do temp_of "$path" && printf '%s\n' "$temp"; done >"$work/temps" && sync -- "$work/temps"; } ||
    fail "listing the new files" "" "$full"
  walk write
  # After a power cut a renamed file must not be empty.
  # shellcheck disable=SC2086
  [ -z "$temps" ] || sync -- $temps || fail "syncing the new files" "" "$full"

  # No stamp until all steps have succeeded.
  { rm -rf -- "$state/stamps/$layer" && printf %s "$touched" >>"$state/pending/$layer" &&
    sync -- "$state/pending/$layer" "$state/pending" "$state/stamps"; } || fail "noting what changes" "" "$full"
  # From here on `fail` restores the former files.
  files_changed=1
  walk rename
  remove_strays
  sync_folders "$touched"

  # Only a fact differs, as after a flushed table: `activate`, which does nothing for unchanged files, gets all as changed.
  changes=$(sort -u "$state/pending/$layer")
  [ -n "$changes" ] || { read_facts; [ -z "$unmet" ] || changes=$declared; }
  run_activate "$changes"
  if ! facts_hold; then
    [ "$changes" != "$declared" ] || fail "confirming the facts" "$unmet" "$look"
    say "the live system is not as declared, activating again as if every file had changed"
    run_activate "$declared"
    facts_hold || fail "confirming the facts" "$unmet" "$look"
  fi
  write_stamp "$stamp" "$installed"
  rm -f -- "$state/pending/$layer"
}

leave() {
  # "removing" is no valid stamp: a preview sees a killed removal as unfinished even if every file is gone.
  write_stamp removing ''
  rm -f -- "$state/pending/$layer"
  sh -c "$script$nl$retire" sh >&2 </dev/null || fail "retire" "exit $?; its output is above" "$look"
  find_strays
  remove_strays
  sync_folders "$strays"
  drop_empty_folders
  run_activate "$strays"
  if [ "$stamp" = absent ]; then
    rm -rf -- "$state/stamps/$layer" || fail "removing the stamp" "" "$full"
  else
    write_stamp "$stamp" ''
  fi
}

apply() {
  umask 022
  IFS=$nl
  set -f
  script=$values$functions
  export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  exec 3>&1 1>&2
  work=$state/work
  files_changed=0 activated=0 declared='' touched='' strays='' manual='' temps='' unmet=''
  full="see whether the disk is full or mounted read-only: df -h / /etc /var"
  look="read journalctl -u pushgate-apply.service and systemctl --failed, then run \`npx pulumi up\` again"
  mkdir -p -- "$state/stamps" "$state/pending" || fail "making $state" "" "$full"
  # Temporary files of a killed apply, which never were live.
  drop_temps
  { rm -rf -- "$work" && mkdir -m 0700 -- "$work"; } || fail "making $work" "" "$full"
  trap 'fail "being stopped" "a signal arrived, or the time limit of this layer is over" "$look"' TERM INT HUP
  if [ "$present" = 1 ]; then arrive; else leave; fi
  trap - TERM INT HUP
  rm -f -- "$work/temps"
  clean_up
}
