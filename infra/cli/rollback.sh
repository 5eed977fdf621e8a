# shellcheck shell=dash disable=SC2154
# Requests a rollback from the builder of $hook and prints the status that names the request, in base64; nothing if no
# status did before the request was gone. releases.ts puts the variables in front.
# - The request belongs to root, holds its own name, and arrives by a rename out of a folder that only root may write:
#   otherwise an account that may request builds could place a file of root's there.
# - The builder is restarted, as it may hang in a build; it takes again what it had taken.
set -u
export LC_ALL=C
umask 022
say() { echo "pushgate: $*" >&2; }
[ -d "$requests/$hook" ] || { say "$hook has no builder on this host. Run pulumi up."; exit 1; }
before=$(sha256sum <"$status")
new=$requests/.rollback-$hook
{ printf '%s\n' "$request" >"$new" && mv -fT "$new" "$requests/$hook/$request"; } ||
  { say "the request cannot be written into $requests/$hook. Check its disk: df $requests/$hook"; exit 1; }
systemctl restart "$unit" || { say "$unit does not start. Read: systemctl status $unit"; exit 1; }
tries=0
while [ $tries -lt $((seconds * 5)) ]; do
  # In this order: the builder removes the request after it has written the status.
  waits=no
  if [ -e "$requests/$hook/$request" ] || [ -e "$requests/$hook/.taken/$request" ]; then waits=yes; fi
  if [ "$(sha256sum <"$status")" != "$before" ] && grep -qF "\"$request\"" "$status"; then
    base64 <"$status" | tr -d '\n'
    exit 0
  fi
  [ $waits = yes ] || exit 0
  tries=$((tries + 1))
  sleep 0.2
done
say "the builder of $hook has not answered in $seconds s. It will carry out the request when it does. Read: journalctl -u $unit"
exit 1
