# shellcheck shell=dash disable=SC2154
# Hands a request to the builder of $hook and prints the status that names it, in base64; nothing where the builder has run
# again since. build.ts puts the variables in front.
# The request is in a folder of root's, which no account enters but the builder's. It arrives by a rename out of a folder
# that only root may write, so that no link leads it elsewhere. A builder that is restarted takes again what it had taken.
set -u
say() { echo "pushgate: $*" >&2; }
[ -d "$rootRequests/$hook" ] || { say "$hook has no builder on this host. Run npx pulumi up."; exit 1; }
sum() { [ ! -e "$status" ] || sha256sum <"$status"; }
# As an item of a list: a hook, or a key of the status, may have the request's name.
named() { grep -qE "(^ *|[[,])\"($request|request of root \($request\))\"([],]|$)" "$status"; }
before=$(sum)
began=$(date +%s)
new=$rootRequests/.request-$hook
{ printf '' >"$new" && mv -fT "$new" "$rootRequests/$hook/$request"; } ||
  { say "the request cannot be written into $rootRequests/$hook. Check its disk: df $rootRequests/$hook"; exit 1; }
systemctl "$verb" "$unit" || { say "$unit does not start. Read: systemctl status $unit"; exit 1; }
while [ $(($(date +%s) - began)) -lt "$seconds" ]; do
  # In this order: the builder removes the request after it has written the status.
  waits=no
  [ ! -e "$rootRequests/$hook/$request" ] || waits=yes
  if [ "$(sum)" != "$before" ] && named; then
    base64 <"$status" | tr -d '\n'
    exit 0
  fi
  [ $waits = yes ] || exit 0
  sleep 0.05
done
say "the builder of $hook has not answered in $seconds s. It will carry out the request when it does. Read: journalctl -u $unit"
exit 1
