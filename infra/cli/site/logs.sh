# shellcheck shell=dash disable=SC2154
# Prints log lines of this host: "z <offset of local time>" first and "s <since, as seconds>", then "n <line of nginx>" and
# "j <journal entry as JSON>", and "u" where the journal was too long to be searched whole.
# logs.ts puts the variables in front, as `Wanted` there has them; journals: the units of each log, joined by commas.
set -uf
echo "z $(date +%z)"
# In seconds since 1970; date(1) reads "today" as now.
from=$(systemd-analyze timestamp -- "$since" 2>/dev/null | sed -n 's/^ *UNIX seconds: @\([0-9]*\).*/\1/p')
echo "s ${from:=0}"
journal() { # logs, arguments of journalctl
  units=$(echo "$1" | tr , ' ')
  shift
  for unit in $units; do set -- "$@" --unit="$unit"; done
  [ -z "$units" ] || timeout --foreground "$seconds" journalctl --quiet --no-pager --output=json \
    --output-fields=MESSAGE,_SYSTEMD_UNIT,UNIT "$@"
}
marked() { sed -u "s/^/$1 /"; }

# The lines of a log and of its rotated files, the oldest first. Only a search reads more than the last two.
rotated() { # file
  if [ -z "$deliveries" ]; then
    for each in "$1.1" "$1"; do [ ! -r "$each" ] || cat -- "$each"; done
    return
  fi
  find "${1%/*}" -maxdepth 1 -name "${1##*/}*" -newermt "@$from" -printf '%T@ %p\n' 2>/dev/null | sort -n |
    while read -r _ each; do
      # By file: a last line that was cut does not run into the next file's first.
      # --text: after a power cut a file may hold NULs, which make grep take it for a binary.
      case $each in *.gz) gzip -cd -- "$each" 2>/dev/null ;; *) cat -- "$each" ;; esac | grep --text -F -e "$deliveries"
    done
}

# Seconds around the lines of nginx on standard input, as "from to", merged where they overlap. The receiver writes its
# line before nginx does, or within the minute after.
windows() {
  sed -n 's/^{"time":"\([0-9T:+-]*\)".*/\1/p' | date -f - +%s 2>/dev/null | sort -n |
    awk '{ if (NR > 1 && $1 - 15 <= to) to = $1 + 60; else { if (NR > 1) print from, to; from = $1 - 15; to = $1 + 60 } }
      END { if (NR > 0) print from, to }'
}

if [ "$follow" = yes ]; then
  journal "$journals" --lines="$lines" --follow | marked j &
  for file in $files; do tail -n "$lines" -F "$file" 2>/dev/null | marked n & done
  # Standard input ends when the operator's ssh does.
  cat >/dev/null
  kill 0
fi
found=$(for file in $files; do rotated "$file" | tail -n "$lines"; done)
[ -z "$found" ] || printf '%s\n' "$found" | marked n
if [ -z "$deliveries" ]; then
  for log in $journals; do journal "$log" --since="$since" | tail -n "$lines" | marked j; done
  exit 0
fi

# journalctl leaves out what does not match before it makes JSON, which costs ten times as much.
pattern=$(printf '%s\n' "$deliveries" | sed 's/[.]/[.]/g' | paste -sd '|' -)
search() {
  journal "$journals" --case-sensitive=true --grep="$pattern" "$@"
  [ $? -ne 124 ] || echo u
}
times=
[ "$seconds" = 0 ] || times=$(printf '%s\n' "$found" | windows)
if [ -n "$times" ]; then
  began=$(date +%s)
  printf '%s\n' "$times" | tail -n 100 | while read -r from to; do
    [ $(($(date +%s) - began)) -lt 30 ] || { echo u; break; }
    search --since="@$from" --until="@$to"
  done
  [ "$(printf '%s\n' "$times" | wc -l)" -le 100 ] || echo u
else
  search --since="$since"
fi | tail -n "$lines" | sed 's/^{/j {/'
