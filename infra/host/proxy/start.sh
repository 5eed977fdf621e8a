#!/bin/sh
# Starts nginx on the sockets of pushgate-nginx.socket: descriptor 3, and 4 for IPv6 where the kernel has it. nginx takes
# over those of its variable NGINX whose addresses its configuration listens on. A [::] line without IPv6 would end it.
set -eu
export NGINX='3;'
if [ "$LISTEN_FDS" = 2 ]; then
  NGINX='3;4;'
  echo 'listen [::]:@port@ ssl;' >@listen6@
fi
exec /usr/sbin/nginx -e @errorLog@ -c @conf@
