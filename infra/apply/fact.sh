# shellcheck shell=dash
# Begins the text of the shell that reads all facts. A subshell for each layer follows, with its functions and calls of `fact`.

# Reads once what several facts need: a query of systemd costs as much as five other programs. It sets
# - known: "is-active UNIT STATE|" of pushgate's units, "is-enabled UNIT enabled|" of those that are enabled;
# - all_read: "yes" if no file and no folder of units changed since systemd began to read all of them;
# - listening_sockets: what `ss -Hltne` prints.
# Where systemd does not answer, the facts query it themselves.
# shellcheck disable=SC2034
read_shared() {
  known="|$(
    timeout -s KILL 5 systemctl list-units --all --plain --no-legend 'pushgate-*' 2>/dev/null |
      awk '{ printf "is-active %s %s|", $1, $3 }'
    for link in /etc/systemd/system/*.wants/pushgate-*; do
      unit=${link##*/}
      # Not of a unit whose own name leads to /dev/null, which masks it.
      [ ! -f "$link" ] || [ -L "${link%/*/*}/$unit" ] || printf 'is-enabled %s enabled|' "$unit"
    done
  )"
  # In microseconds, at the boot and at a later reload. A file of systemd's has the time, too, but systemd-analyze touches it.
  read_at=$(timeout -s KILL 5 busctl get-property org.freedesktop.systemd1 /org/freedesktop/systemd1 \
    org.freedesktop.systemd1.Manager UnitsLoadStartTimestamp UnitsLoadTimestamp 2>/dev/null |
    awk '$2 > last { last = $2 } END { printf "@%.6f", last / 1e6 }')
  set --
  for folder in /etc/systemd/system /etc/systemd/system.control /run/systemd/system /run/systemd/system.control \
    /usr/local/lib/systemd/system /usr/lib/systemd/system; do
    [ ! -d "$folder" ] || set -- "$@" "$folder"
  done
  all_read=no
  # The time of a change, as a copied file may have any other time. Without an answer of systemd every file is newer.
  newer=$(find -L "$@" -maxdepth 2 -newerct "$read_at" -print -quit 2>/dev/null) && [ -z "$newer" ] && all_read=yes
  listening_sockets=$(command ss -Hltne 2>/dev/null)
}

ss() { if [ "$*" = -Hltne ]; then printf '%s\n' "$listening_sockets"; else command ss "$@"; fi; }

# A layer's script replaces this function. It runs once before the layer's facts.
before_facts() { :; }

# Prints the states that `read_shared` found. Where one is not among them, it queries systemd.
systemctl() {
  fact_answers=
  for fact_word; do
    [ "$fact_word" != "$1" ] || continue
    for fact_state in active inactive failed enabled -; do
      case $known in *"|$1 $fact_word $fact_state|"*) fact_answers="$fact_answers $fact_state" && break ;; esac
    done
    [ "$fact_state" != - ] || { fact_answers= && break; }
  done
  # shellcheck disable=SC2086 # a list of words
  if [ -n "$fact_answers" ]; then printf '%s\n' $fact_answers; else command systemctl "$@"; fi
}

newline='
'
separator=$(printf '\1')

# Prints what the shell text $4 prints, cut at 2 KiB, in one line after its exit status, as `rows` of probe.sh reads it. It is
# shorter than PIPE_BUF, and so one write: where sh is bash, each line is a write, and another shell's may come between.
fact() { # kind layer index shell
  # The text has no arguments, as in a shell of its own.
  fact_output=$(fact_text=$4 && set -- && eval "$fact_text" 2>/dev/null </dev/null)
  fact_status=$?
  [ ${#fact_output} -le 2048 ] || fact_output=$(printf %.2048s "$fact_output")
  fact_line=
  while [ "${fact_output#*"$newline"}" != "$fact_output" ]; do
    fact_line=$fact_line${fact_output%%"$newline"*}$separator fact_output=${fact_output#*"$newline"}
  done
  printf '%s %s %d %d %s\n' "$1" "$2" "$3" "$fact_status" "$fact_line$fact_output"
}
