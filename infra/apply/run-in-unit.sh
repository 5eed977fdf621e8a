# shellcheck shell=sh
# Runs the script on standard input as a transient unit: `sh -c <this text> sh HOST SECONDS`.
# The unit's name is the lock: one apply at a time. After SECONDS it gets SIGTERM, and a minute to restore the former files.
unit=pushgate-apply tries=0
while [ "$(systemctl show -p ActiveState --value $unit.service)" != inactive ]; do
  tries=$((tries + 1))
  [ $tries -le 5 ] || { echo "pushgate: $1: another pulumi up is running on this host. Wait until it ends, or read: systemctl status $unit" >&2; exit 75; }
  sleep 1
done
exec systemd-run --quiet --wait --pipe --collect --unit=$unit --property=RuntimeMaxSec="$2" --property=TimeoutStopSec=60 /bin/sh -s
