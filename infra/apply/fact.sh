# shellcheck shell=dash
# Begins the text of a shell that reads facts. The layer's own functions and the calls of `fact` follow.

# From the one query for all units; where one is not enabled, or not active, systemd is queried again.
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

# Prints one row: what the shell text $4 prints, cut at 2 KiB, and its exit status. Even in base64 a row is shorter than
# PIPE_BUF, and so one write. Encoding each would double the number of processes.
fact() { # kind layer index shell
  # The text has no arguments, as in a shell of its own.
  fact_output=$(fact_text=$4 && set -- && eval "$fact_text" 2>/dev/null </dev/null)
  fact_status=$?
  case $fact_output in
    *[!\ a-zA-Z0-9/._:@+-]*)
      printf '["%s64","%s",%d,%d,"%s"],\n' "$1" "$2" "$3" "$fact_status" "$(printf '%.2048s' "$fact_output" | base64 -w0)"
      ;;
    *) printf '["%s","%s",%d,%d,"%.2048s"],\n' "$1" "$2" "$3" "$fact_status" "$fact_output" ;;
  esac
}
