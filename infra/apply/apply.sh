# shellcheck shell=dash disable=SC2154
# Brings one layer to this machine, or takes it away. Constant text; the program appends the layer's values and, on the
# last line, the call: a connection cut while this is being sent runs nothing. Runs as root in a transient unit whose
# name is the lock, so a connection lost later does not stop it midway.
#
# Order: all candidates are written aside and checked by their real parsers; what will be replaced is saved; new files
# are written beside their targets with owner, mode and fsync; the old stamp goes; the renames follow in one go; what
# is ours and no longer declared goes; activate; the facts are confirmed; the stamp comes LAST. So whatever kills this
# at any moment leaves a machine without a valid stamp, which the next preview reports and the next apply heals.
# A failure puts the former files back and runs `restore`.
#
# Under `state`: stamps/<layer>; made, the folders we created; pending/<layer>, paths changed since the layer last stood
# whole, so that an apply after a killed one still tells the daemons; work, gone when nothing runs.
# Standard output carries what `activate` says there, nothing else.

nl='
'

say() { printf 'pushgate: %s: %s\n' "$layer" "$*" >&2; }

# step, what was wrong, cure
fail() {
  trap '' TERM INT HUP
  say "failed at: $1"
  [ -z "$2" ] || printf '%s\n' "$2" >&2
  say "cure: $3"
  if [ "$armed" = 1 ]; then
    put_back
  elif [ "$present" = 1 ]; then
    say "nothing was changed, the former state serves"
  else
    say "the removal is not finished; what is gone stays gone, and the next \`pulumi up\` goes on"
  fi
  clean_up
  exit 1
}

drop_temps() {
  [ ! -f "$work/temps" ] || while read -r temp; do rm -f -- "$temp"; done <"$work/temps"
}

# A folder of ours that is empty again goes, deepest first; one that others use by now stays, and on the list.
drop_empty_folders() {
  [ -f "$state/made" ] || return 0
  left='' gone=0
  # shellcheck disable=SC2013 # IFS is a newline here
  for folder in $(sort -ru "$state/made"); do
    if [ -d "$folder" ] && [ ! -L "$folder" ] && ! rmdir -- "$folder" 2>/dev/null; then
      left="$left$folder$nl"
    else
      gone=1
    fi
  done
  # A full disk must not shorten the list, so it is written aside, and only when there is something to write.
  if [ -z "$left" ]; then
    rm -f -- "$state/made"
  elif [ "$gone" = 1 ]; then
    printf %s "$left" >"$state/made.new" && mv -f -- "$state/made.new" "$state/made"
  fi
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
  printf '%s\n' "$1" >>"$state/made" && mkdir -m 0755 -- "$1"
}

# Put a copy of $1 in place of $2 in one rename, whatever stands there; $3 and $4 are owner and mode, or empty to keep.
# The copy is made under a hidden name no include pattern matches, and never through a link somebody left.
temp_of() { printf '%s/.%s.pushgate-new' "${1%/*}" "${1##*/}"; }

put_back() {
  say "putting the former files back"
  complete=1
  for path in $touched; do
    temp=$(temp_of "$path")
    if [ -e "$work/old$path" ] || [ -L "$work/old$path" ]; then
      { [ ! -d "$path" ] || [ -L "$path" ]; } || rm -rf --one-file-system -- "$path"
      { printf '%s\n' "$temp" >>"$work/temps" && rm -rf -- "$temp" && make_folder "${path%/*}" && cp -a -- "$work/old$path" "$temp" &&
        mv -fT -- "$temp" "$path"; } || { complete=0; say "could not put back $path"; }
    else
      rm -f -- "$path" || { complete=0; say "could not remove $path"; }
    fi
  done
  changed=$touched sh -c "$script$nl$restore" sh >&2 </dev/null || { complete=0; say "restore said no, see above"; }
  if [ "$complete" = 1 ]; then
    say "the former files are back and taken up"
  else
    say "the former state is NOT complete; \`pulumi up\` again heals it once the cause is gone"
  fi
}

# The manifest's two words; what they do depends on the phase.

walk() { phase=$1 && manifest; }

file() { # path mode owner check text
  case $phase in
    stage)
      declared="$declared$1$nl"
      { mkdir -p -- "$work/new${1%/*}" && printf %s "$5" >"$work/new$1"; } || fail "writing the candidate of $1" "" "$full"
      { [ ! -d "$1" ] || [ -L "$1" ]; } || fail "$1" "a folder stands where a file is declared" "move it away"
      ;;
    check)
      [ -z "$4" ] || staged=$work/new sh -ec "$4" check "$work/new$1" >"$work/said" 2>&1 </dev/null ||
        fail "check of $1" "$(tail -n 20 "$work/said")" "the program rendered what this machine's own parser refuses; change the configuration, or the software whose version is named above"
      if [ -f "$1" ] && [ ! -L "$1" ] && cmp -s -- "$work/new$1" "$1" &&
        [ "0$(stat -c '%a %U:%G' -- "$1")" = "$2 $3" ]; then return; fi
      touched="$touched$1$nl"
      ;;
    write)
      case $nl$touched in *"$nl$1$nl"*) ;; *) return ;; esac
      make_folder "${1%/*}" || fail "making the folder of $1" "" "$full"
      temp=$(temp_of "$1")
      { printf '%s\n' "$temp" >>"$work/temps" && rm -rf -- "$temp" &&
        (umask 077 && set -C && cat -- "$work/new$1" >"$temp") && chown -- "$3" "$temp" && chmod -- "$2" "$temp"; } ||
        fail "writing $1 beside its place" "" "$full, and the account $3 must exist"
      temps="$temps$temp$nl"
      ;;
    rename)
      case $nl$touched in *"$nl$1$nl"*) ;; *) return ;; esac
      mv -fT -- "$(temp_of "$1")" "$1" || fail "renaming $1 into place" "" "see whether ${1%/*} may be written (chattr, read-only mount)"
      ;;
  esac
}

fact() { # name read want
  [ "$phase" = facts ] || return 0
  out=$(timeout -k 1 5 sh -c "$script$nl$2" 2>"$work/said" </dev/null)
  status=$?
  out=$(printf '%.2048s' "$out")
  out=${out#"${out%%[![:space:]]*}"}
  out=${out%"${out##*[![:space:]]}"}
  [ "$out" != "$3" ] || [ "$status" = 124 ] || [ "$status" = 137 ] || return 0
  unmet="$unmet  $1: wanted \"$3\", the machine says \"$out\" (exit $status)$(sed 's/^/; /;q' "$work/said")$nl"
}

# Daemons settle within a moment of their reload: ask for two seconds before believing a no.
facts_hold() {
  for _ in 1 2 3 4 5 6 7 8 9; do
    unmet=
    walk facts
    [ -n "$unmet" ] || return 0
    sleep 0.25
  done
  return 1
}

run_activate() {
  # A pipe from a function: what it holds is in no argv, no environment and no file.
  input | changed=$1 sh -ec "$script$nl$activate" sh >&3 ||
    fail "activate" "exit $?; what it said stands above" "$look"
}

# What our globs match and nobody declared, except folders on the way to something declared.
find_strays() {
  strays=
  set +f
  for path in $owns; do
    { [ -e "$path" ] || [ -L "$path" ]; } || continue
    case $nl$declared in *"$nl$path$nl"* | *"$nl$path/"*) continue ;; esac
    case $path in *"$nl"*) fail "$path" "its name holds a line end" "move it away" ;; esac
    case $nl$strays in *"$nl$path$nl"*) continue ;; esac
    strays="$strays$path$nl"
  done
  set -f
}

remove_strays() {
  for path in $strays; do
    rm -rf --one-file-system -- "$path" || fail "removing $path" "" "see whether it may be removed (chattr, mount)"
  done
}

save_former() {
  for path in $touched; do
    { [ -e "$path" ] || [ -L "$path" ]; } || continue
    { mkdir -p -- "$work/old${path%/*}" && cp -a -- "$path" "$work/old$path"; } || fail "saving the former $path" "" "$full"
  done
}

# The first line is the stamp; the record after it is what was installed.
write_stamp() { # stamp record
  { printf '%s\n%s' "$1" "$2" >"$state/stamps/.$layer.new" && sync -- "$state/stamps/.$layer.new" &&
    rm -rf -- "$state/stamps/$layer" && mv -fT -- "$state/stamps/.$layer.new" "$state/stamps/$layer"; } ||
    fail "writing the stamp" "" "$full"
  [ -z "$formerly" ] || rm -rf -- "$state/stamps/$formerly" "$state/pending/$formerly"
}

arrive() {
  walk stage
  walk check
  find_strays
  touched="$touched$strays"
  save_former
  walk write
  # One fsync call for all of them: after a power cut a renamed file must not be an empty one.
  # shellcheck disable=SC2086
  [ -z "$temps" ] || sync -- $temps || fail "syncing the new files" "" "$full"

  # From here on the stamp is gone, whatever happens.
  { rm -rf -- "$state/stamps/$layer" && printf %s "$touched" >>"$state/pending/$layer" &&
    sync -- "$state/pending/$layer"; } || fail "noting what changes" "" "$full"
  armed=1
  walk rename
  remove_strays
  for path in $touched; do [ ! -d "${path%/*}" ] || printf '%s\n' "${path%/*}"; done | sort -u >"$work/folders"
  # shellcheck disable=SC2046
  [ ! -s "$work/folders" ] || sync -- $(cat "$work/folders")

  # The files as they were and yet something is wrong: a table flushed by hand, a unit stopped. Nothing `activate` is
  # told would make it look, so it is told that every file is new.
  tell=$(sort -u "$state/pending/$layer")
  [ -n "$tell" ] || { unmet= && walk facts; [ -z "$unmet" ] || tell=$declared; }
  run_activate "$tell"
  if ! facts_hold; then
    [ "$tell" != "$declared" ] || fail "confirming the facts" "$unmet" "$look"
    say "the live system is not as declared, activating again as if every file were new"
    run_activate "$declared"
    facts_hold || fail "confirming the facts" "$unmet" "$look"
  fi
  write_stamp "$stamp" "$record"
  rm -f -- "$state/pending/$layer"
}

leave() {
  # Not a stamp anybody accepts: a removal that is killed is seen as unfinished even where nothing of ours is left.
  write_stamp removing ''
  rm -f -- "$state/pending/$layer"
  sh -c "$script$nl$retire" sh >&2 </dev/null || fail "retire" "exit $?; what it said stands above" "$look"
  find_strays
  remove_strays
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
  # Lists are one path a line; nothing but `owns` may be expanded.
  IFS=$nl
  set -f
  export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  exec 3>&1 1>&2
  work=$state/work
  armed=0 declared='' touched='' strays='' temps='' unmet=''
  full="see whether the disk is full or mounted read-only: df -h / /etc /var"
  look="journalctl -u pushgate-apply.service, systemctl --failed; then \`pulumi up\` again"
  mkdir -p -- "$state/stamps" "$state/pending" || fail "making $state" "" "$full"
  # Left by an apply that was killed: its half-written files, which never were live.
  drop_temps
  { rm -rf -- "$work" && mkdir -m 0700 -- "$work"; } || fail "making $work" "" "$full"
  trap 'fail "being stopped" "a signal came, or the time this layer may take is over" "$look"' TERM INT HUP
  if [ "$present" = 1 ]; then arrive; else leave; fi
  trap - TERM INT HUP
  rm -f -- "$work/temps"
  clean_up
}
