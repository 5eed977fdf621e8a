# shellcheck shell=dash
# Begins the text of a shell that reads facts. The layer's own functions and the calls of `fact` follow.

# Answers from the one query for all units. Where one is not enabled or not active, or a file is newer than what systemd has
# read, it queries systemd again.
systemctl() {
  case $known/$* in fresh*/'show -p Id -p NeedDaemonReload pushgate-'*) return ;; esac
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

# Prints what the shell text $4 prints, cut at 2 KiB, in one line after its exit status, as `rows` of probe.sh reads it. It is
# shorter than PIPE_BUF, and so one write: where sh is bash, each line is a write, and another shell's may come between.
fact() { # kind layer index shell
  # The text has no arguments, as in a shell of its own.
  fact_output=$(fact_text=$4 && set -- && eval "$fact_text" 2>/dev/null </dev/null)
  fact_status=$?
  [ ${#fact_output} -le 2048 ] || fact_output=$(printf %.2048s "$fact_output")
  case $fact_output in *"$newline"*) fact_output=$(printf %s "$fact_output" | tr '\n' '\1') ;; esac
  printf '%s %s %d %d %s\n' "$1" "$2" "$3" "$fact_status" "$fact_output"
}
