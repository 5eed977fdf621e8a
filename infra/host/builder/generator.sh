# Starts the generator in its unit. The generator reads the content folder that the configuration names, and no folder that
# an account exchanged for it: systemd mounts the path into the unit as root, and follows every link. So the account that
# can exchange what is on the way (others.sh, which builder.ts puts before this) opens the folder first, and the generator
# starts only if that folder is mounted.
# generator find-content <content> <note>: root runs it outside the unit; notes the folder's number, or why there is none.
# generator build <note> <variable> <cache> <program>...: the unit runs it; its mounts stay as they are from here on. <note>
# is "" for the repository's own content; <variable>, unless it is "", gets the line that the builder sends.
set -u

say() { printf '%s\n' "$*"; }

find_content() { # content, note
  rm -f -- "$2"
  if opener=$(opener_of "$1"); then
    # shellcheck disable=SC2016
    found=$(setpriv --reuid="$opener" --regid="$(id -g "$opener")" --init-groups -- sh -c 'cd -P -- "$1" && stat -c %d:%i .' sh "$1") ||
      if [ -d "$1" ]; then
        found="the account $opener, which can exchange the content folder $1, cannot enter it. Run chmod u+rx on it, and on the folders above."
      else
        found="the content folder $1 is missing. Mount it, or correct hooks[].site.content."
      fi
  else
    found="the content folder $1 is below $opener, which several accounts can write. Run chmod go-w $opener."
  fi
  printf '%s\n' "$found" >"$2.new" && mv -fT -- "$2.new" "$2"
}

# Each folder with the time of its last change, which is later when a file in it was made, renamed or removed.
folders() { find /content -type d -printf '%i %C@ %p\n' 2>/dev/null | sha256sum; }

# Links, and templates in the content (content adapters): by either a writer of the content could publish the repository.
unfit() { find /content ! -type d \( -type l -o -iname '_content*.gotmpl' \) -printf '%P\n' 2>/dev/null; }

check_content() { # note
  # What find's patterns match depends on no locale of the host.
  export LC_ALL=C
  noted=$(cat -- "$1")
  case $noted in
    *[!0-9:]*) say "$noted" && exit 78 ;;
    "$(stat -c %d:%i /content)") ;;
    *) say "the content folder was exchanged for another while the build began. Push again." && exit 78 ;;
  esac
  before=$(folders)
  names=$(unfit | head -n 10 | paste -sd ' ')
  [ -z "$names" ] || { say "the content holds links or templates (_content.gotmpl), which could publish other files than the content: $names. Remove them." && exit 78; }
}

build() { # note, variable, cache, program...
  note=$1 variable=$2 cache=$3
  shift 3
  # For the builder: which build this is, before any code of the repository runs.
  say "pushgate-generator build=$INVOCATION_ID"
  # What the repository has of the cache, such as compiled Sass. The newest of both counts.
  [ ! -d resources/_gen ] || cp -Ru --parents resources/_gen "$cache" 2>/dev/null
  [ -z "$variable" ] || { read -r sent && export "$variable=$sent"; } || exit
  [ -z "$note" ] || check_content "$note"
  # systemd's status of a program that it cannot start.
  [ -x "$1" ] || exit 203
  # For the builder, too, which removes the list of pages before a site's first release, to compare the build with a new one.
  [ -e "$cache/pages.csv" ] || timeout 30 "$1" list all 2>/dev/null >"$cache/pages.csv"
  # Beside the build, which gives the reason where this fails. Where the build ends first, systemd's SIGTERM does not end
  # this, and the unit ends after it: the signal is ignored before the process is there.
  trap '' TERM
  "$1" config mounts >"$cache/mounts" 2>/dev/null &
  trap - TERM
  [ -n "$note" ] || exec "$@"
  "$@"
  ended=$?
  wait
  [ "$ended" -lt 128 ] || kill -"$((ended - 128))" $$
  # A link that was there only while the generator read. "ERROR": the builder reports these lines and no others.
  [ "$(folders)" = "$before" ] || { say "ERROR files of the content were made, renamed or removed during the build, which is tried again." && exit 78; }
  exit "$ended"
}

case $1 in
  find-content) export LC_ALL=C && shift && find_content "$@" ;;
  build) shift && build "$@" ;;
esac
