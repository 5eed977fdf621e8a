# shellcheck shell=dash disable=SC2154
# Has the reporter of $hook start with a test, and prints the line of its journal with the answers, in base64. notify.ts puts
# the variables in front. The test is named, as the reporter may start again before its journal is read.
set -u
say() { echo "pushgate: $*" >&2; }
[ -e "$settings" ] || { say "$hook has no reporter on this host. Run npx pulumi up."; exit 1; }
id=$(cat /proc/sys/kernel/random/uuid)
(umask 077 && echo "PUSHGATE_TEST=$id" >"$test")
began=$(date +%s)
systemctl restart "$unit"
restarted=$?
rm -f "$test"
[ $restarted = 0 ] || { say "$unit does not start. Read: systemctl status $unit"; exit 1; }
while [ $(($(date +%s) - began)) -lt "$seconds" ]; do
  line=$(journalctl --quiet --unit="$unit" --since="@$((began - 5))" --output=cat | grep -m 1 -F "\"test\":\"$id\"")
  [ -z "$line" ] || { printf '%s\n' "$line" | base64 | tr -d '\n'; exit 0; }
  sleep 0.2
done
say "the reporter of $hook has not answered in $seconds s. Read: journalctl -u $unit"
exit 1
