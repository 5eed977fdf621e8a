# shellcheck shell=dash
# Begins the text of the shell that reads all facts. A subshell for each layer follows, with its functions and calls of `fact`.

# What several facts read, once for all: a query of systemd costs as much as five other programs. Where systemd hangs, the
# facts say so. Sets
# - known: "is-active UNIT STATE|" of pushgate's units, "is-enabled UNIT enabled|" of those that are;
# - all_read: whether no file or folder of units is newer than systemd's last reading of all;
# - listening_sockets: as ss prints them.
# shellcheck disable=SC2034
look() {
  known="|$(
    timeout -s KILL 5 systemctl list-units --all --plain --no-legend 'pushgate-*' 2>/dev/null |
      awk '{ printf "is-active %s %s|", $1, $3 }'
    for link in /etc/systemd/system/*.wants/pushgate-*; do
      unit=${link##*/}
      # Not of a unit whose own name leads to /dev/null, which masks it.
      [ ! -f "$link" ] || [ -L "${link%/*/*}/$unit" ] || printf 'is-enabled %s enabled|' "$unit"
    done
  )"
  all_read=no last_reading=/run/systemd/systemd-units-load
  newer=$(find /etc/systemd/system /etc/systemd/system.control /run/systemd/system /run/systemd/system.control \
    /usr/local/lib/systemd/system /usr/lib/systemd/system -maxdepth 2 -newer $last_reading -print -quit 2>/dev/null)
  [ ! -f $last_reading ] || [ -n "$newer" ] || all_read=yes
  listening_sockets=$(command ss -Hltne 2>/dev/null)
}

ss() { printf '%s\n' "$listening_sockets"; }

# A layer's own, in its shell.
before_facts() { :; }

# Answers from what `look` found, or by another query.
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
