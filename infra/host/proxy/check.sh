#!/bin/sh
# Checks the new configuration with the host's own nginx before it is installed, in a mount namespace where the new file
# already is in its place. $1: the new file; $staged: the folder with all of the layer's new files. Runs under `set -e`.
live=${1#"$staged"}
folder=${live%/*}

# Without the capability the workers would die on reload, although `nginx -t` passes.
pid=$(systemctl show -p MainPID --value nginx.service)
if [ "${pid:-0}" != 0 ]; then
  mask=$(sed -n 's/^CapPrm:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
  held=$((0x${mask:-0} >> 13 & 1))
else
  case " $(systemctl show -p CapabilityBoundingSet --value nginx.service) " in *' cap_net_raw '*) held=1 ;; *) held=0 ;; esac
fi
if [ "$held" = 0 ]; then
  echo "proxy: nginx does not hold CAP_NET_RAW, so its workers would die on reload and every site with them." >&2
  echo "Find what removes it (CapabilityBoundingSet= or User= in systemctl cat nginx.service), add CAP_NET_RAW there, then run: systemctl daemon-reload && systemctl restart nginx" >&2
  exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -a "$folder" "$scratch/conf.d"
# The CA of the client certificate may be new, too.
sed "s|\(ssl_client_certificate \)|\1$staged|" "$1" >"$scratch/conf.d/${live##*/}"
# shellcheck disable=SC2016 # the inner shell's own arguments
unshare --mount --propagation private sh -ec '
  mount --bind "$1" "$2"
  nginx -t -q
  nginx -T 2>/dev/null | grep -qxF "# configuration file $3:" || {
    echo "proxy: nginx does not read $3. Add \"include $2/*.conf;\" to the http block of /etc/nginx/nginx.conf." >&2
    exit 1
  }' check "$scratch/conf.d" "$folder" "$live"
