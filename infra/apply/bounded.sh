# shellcheck shell=sh
# Runs a command and passes on at most 1 MiB of each output, as it comes: Pulumi's command plugin keeps all of it in memory.
# Its status is the command's: `sh bounded.sh COMMAND...`.
exec 4>&1
most() { dd bs=256 count=4096 2>/dev/null; }
status=$({ { { "$@" 3>&- 4>&- 5>&-; echo $? >&3; } 2>&1 >&5 5>&- | most >&2; } 5>&1 | most >&4; } 3>&1)
exit "$status"
