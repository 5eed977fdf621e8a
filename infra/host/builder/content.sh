# Has Hugo read the content folder that the configuration names, and no folder that an account exchanged for it: systemd
# mounts the path into Hugo's unit as root, and follows every link. So root finds the folder step by step (enter.sh, which
# builder.ts puts before this), and the unit starts Hugo only if that folder is mounted there.
#
# hugo-content find <content> <note>: root runs it outside the unit; notes the folder's number, or why there is none.
# hugo-content run <note> <program>...: the unit runs it; the unit's mounts stay as they are from here on.
set -u
export LC_ALL=C

say() { printf '%s\n' "$*"; }

find_content() { # content, note
  rm -f -- "$2"
  if [ -d "$1" ]; then
    found=$(enter "$1" 2>&1 && stat -c %d:%i .)
  else
    found="the content folder $1 is missing. Mount it, or correct hooks[].site.content."
  fi
  printf '%s\n' "$found" >"$2.new" && mv -fT -- "$2.new" "$2"
}

run_with_content() { # note, program...
  noted=$(cat -- "$1")
  shift
  if [ -n "$noted" ] && [ "$(stat -c %d:%i /content)" = "$noted" ]; then
    # systemd's status of a program that it cannot start.
    [ -x "$1" ] || exit 203
    exec "$@"
  fi
  case $noted in
    *[!0-9:]*) say "$noted" ;;
    *) say "the content folder was exchanged for another while the build began. Push again." ;;
  esac
  exit 78
}

case $1 in
  find) shift && find_content "$@" ;;
  run) shift && run_with_content "$@" ;;
esac
