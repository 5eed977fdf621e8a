# - systemd holds the origin port. Connections wait there while the service restarts, so a restart loses none.
# - A change of the configuration alone is a reload, which ends no download. `nginx -t` passes on configurations whose
#   workers then die, and a master that cannot use the new one keeps the former although the reload succeeds: after a
#   reload there must be new workers that stay alive.

# Those that are not shutting down.
workers() {
  master=$(systemctl show -p MainPID --value "$service")
  # shellcheck disable=SC2013 # process ids
  for pid in $(grep -ls "^PPid:[[:space:]]*$master\$" /proc/[0-9]*/status | cut -d / -f 3); do
    [ "$(tr -d '\0' 2>/dev/null <"/proc/$pid/cmdline")" != 'nginx: worker process' ] || echo "$pid"
  done
}

reload() {
  former=$(workers | tr '\n' ' ')
  systemctl reload "$service"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    fresh=
    for worker in $(workers); do among "$worker" "$former" || fresh="$fresh $worker"; done
    [ -z "$fresh" ] || break
    sleep 0.2
  done
  [ -z "$fresh" ] || sleep 0.3
  for worker in $fresh; do kill -0 "$worker" 2>/dev/null && return 0; done
  say "nginx has no live worker with the new configuration. Its error log ends with:"
  tail -n 5 "$error_log" | printable "\n" >&2
  return 1
}

# The port at which the socket is bound now, for each of its listeners.
bound_ports() { ss -Hltne | sed -n "/ cgroup:[^ ]*\/$socket /s/^[^ ]* *[^ ]* *[^ ]* *[^ ]*:\([0-9]*\) .*/\1/p"; }

on_former() { # rule of a chain
  printf '%s\n' "table inet $table" "delete table inet $table" "table inet $table {" 'chain former {' "$1" '}' '}' | nft -f - ||
    say "deliveries of the next seconds may be rejected"
}

# While the socket is not bound, a new connection gets no reset and tries again within a second. Cloudflare still connects to
# the former port then: its connections are led to the new one until the last layer of this `up` ends that.
rebind() {
  former=$(bound_ports | head -n 1)
  [ -z "$former" ] || on_former "type filter hook prerouting priority raw; tcp dport $former tcp flags & (syn | ack) == syn drop;"
  systemctl stop "$socket" "$service"
  is_bound=yes
  systemctl start "$socket" || is_bound=no
  case $former in
    "") ;;
    "$port") nft delete table inet "$table" ;;
    *) on_former "type nat hook prerouting priority dstnat; tcp dport $former redirect to :$port;" ;;
  esac
  [ $is_bound = yes ] || { lines_of "$socket"; return 1; }
}

# Where $renew is yes, the service restarts in any case.
take_up() {
  # nginx would not start. A later layer of this `up` restores both.
  [ -s "$settled_ca" ] || rm -f "$settled_line"
  # Of the file, which may be the former one again.
  port=$(sed -n 's/^ListenStream=.*:\([0-9]*\)$/\1/p;T;q' "$units/$socket")
  [ "$(listens)" = yes ] || {
    rebind || return 1
    renew=yes
  }
  systemctl is-active --quiet "$service" || renew=yes
  if [ "$renew" = no ]; then reload; else restart_and_watch "$service"; fi
}

# Sockets of source sets that left (receiver/layer.sh). nginx's former workers, which end within 5 s, may still connect to them.
end_former_sockets() {
  # shellcheck disable=SC2086 # a pattern
  former=$(cd "$run_units" && ls -- $sockets 2>/dev/null) || return 0
  sleep 5
  for unit in $former; do
    [ -e "$units/$unit" ] || systemctl stop "$unit"
    rm -f "$run_units/$unit"
  done
  systemctl daemon-reload
  # It holds the listeners. After it the routing rule of a former mark can leave.
  systemctl try-restart "$receiver" || :
  systemctl restart "$routing" || :
}

activate() {
  systemd-sysusers "$sysusers"
  settle_account "$user" / "$user"
  systemd-tmpfiles --create "$tmpfiles"
  enable_units "$socket" "$service"
  renew=no
  for path in $changed; do
    case $path in "$conf" | "$client_ca" | "$logrotate") ;; *) renew=yes ;; esac
  done
  take_up
  end_former_sockets
}

reactivate() {
  forget_missing "$socket" "$service"
  renew=yes
  [ ! -e "$units/$service" ] || take_up
}

retire() {
  remove_units "$socket" "$service" || return 1
  rm -f "$starts/$service.loaded"
  rm -rf "$logs" "$cache"
  nft delete table inet "$table" 2>/dev/null
  ! id "$user" >/dev/null 2>&1 || userdel "$user"
}

# "yes" if the listeners of the origin port are those of the socket's unit, one for each address family.
listens() {
  families=1
  [ ! -e /proc/net/if_inet6 ] || families=2
  of_unit=$(bound_ports | grep -cx "$port")
  [ "$of_unit" = "$families" ] && echo yes || echo no
}

# To a client without a certificate, which needs no authorities: to read those of the system takes openssl half of its time.
greeting() {
  printf 'GET / HTTP/1.0\r\n\r\n' | SSL_CERT_FILE=/dev/null timeout 2 openssl s_client -quiet -connect "$loopback4:$port" 2>/dev/null |
    awk '{ sub(/\r/, "") } /^(HTTP|X-Served-By: )/ && n < 2 { found[++n] = $2 } END { if (n) print found[1] (n > 1 ? " " found[2] : "") }'
}

serves() { [ -n "$(greeting)" ]; }

# A reload reads files anew, except those of `started`.
runs_what_is_installed() { if noted "$service.loaded" "$loaded"; then runs_installed "$service" "$started"; else echo no; fi; }
