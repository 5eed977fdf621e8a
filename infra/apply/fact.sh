# shellcheck shell=dash
# Begins the text of the shell that reads all facts. A subshell for each layer follows, with its functions and calls of `fact`.

# "is-active UNIT|" and "is-enabled UNIT|" of each of pushgate's units for which that is so. A query of systemd costs as much
# as five other programs, and systemd answers one after the other. Where it hangs, the facts say so.
known_units() {
  timeout -s KILL 5 systemctl list-units --plain --no-legend --state=active 'pushgate-*' 2>/dev/null |
    awk '{ printf "is-active %s|", $1 }'
  for link in /etc/systemd/system/*.wants/pushgate-*; do
    unit=${link##*/}
    # Not of a unit whose own name leads to /dev/null, which masks it.
    [ ! -f "$link" ] || [ -L "${link%/*/*}/$unit" ] || printf 'is-enabled %s|' "$unit"
  done
}

# Answers from the one query for all units. Where one is not enabled or not active, it queries systemd again.
systemctl() {
  fact_answer=
  for fact_word; do
    case "|$known" in
      *"|$1 $fact_word|"*) fact_answer="$fact_answer${1#is-} " ;;
      *) [ "$fact_word" = "$1" ] || { command systemctl "$@"; return; } ;;
    esac
  done
  # shellcheck disable=SC2086 # a list of words
  if [ -n "$fact_answer" ]; then printf '%s\n' $fact_answer; else command systemctl "$@"; fi
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
