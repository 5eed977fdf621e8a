# shellcheck shell=sh disable=SC2154
# The proxy layer on the host. proxy.ts lists its values.
#
# - `nginx -t` alone proves too little: it passes on configurations whose workers then die (all sites of that nginx go
#   down), and a master that cannot bind keeps its former configuration although `systemctl reload` succeeds.
# - So after a reload there must be live new workers, the origin port must answer as pushgate's server, and every other
#   listener of this nginx that answered before must still answer.

# An apply makes these marks where it finds nginx stopped, or not enabled. `retire` then stops nginx, unless another
# site uses it, or disables nginx.
started=$state/proxy-started-nginx
enabled=$state/proxy-enabled-nginx

# Process ids of nginx's master, which systemd started, and of its children. Any process may call itself nginx.
processes() {
  master=$(systemctl show -p MainPID --value nginx.service)
  program=$(readlink -f "$(command -v nginx)")
  for pid in "$master" $(grep -ls "^PPid:[[:space:]]*$master\$" /proc/[0-9]*/status | cut -d / -f 3); do
    # An upgrade of the package replaces the program's file while it runs.
    case $(readlink "/proc/$pid/exe") in "$program" | "$program (deleted)") echo "$pid" ;; esac
  done
}

# Process ids of the workers that are not shutting down.
workers() {
  for pid in $(processes); do
    [ "$(tr -d '\0' 2>/dev/null <"/proc/$pid/cmdline")" != 'nginx: worker process' ] || echo "$pid"
  done
}

# The TCP sockets on which those processes listen, as "address port". By inode: `ss` prints a process's name unescaped,
# so a name can look like another process's id.
listeners() {
  held=$(for pid in $(processes); do
    find "/proc/$pid/fd" -lname 'socket:*' -printf '%l ' 2>/dev/null || : # a worker may end meanwhile
  done)
  ss -Hltne | sed -n 's/^[^ ]* *[^ ]* *[^ ]* *\([^ ]*\):\([0-9]*\) .* ino:\([0-9]*\) .*/\3 \1 \2/p' |
    while read -r inode address listens; do
      case $held in *"socket:[$inode] "*) echo "$address $listens" ;; esac
    done | sort -u
}

# What nginx answers on the origin port to a client without a certificate: "400 pushgate-proxy". Arguments: of s_client.
greeting() {
  printf 'GET / HTTP/1.0\r\n\r\n' | timeout 2 openssl s_client "$@" -quiet -connect "$loopback4:$port" 2>/dev/null |
    tr -d '\r' | sed -n 's/^HTTP[^ ]* \([0-9]*\).*/\1/p; s/^X-Served-By: //p' | head -n 2 | paste -sd ' ' -
}

# The other addresses on which this nginx answers HTTP, as "address port", at most eight. A server that names itself as
# pushgate's is no neighbour: it listens on the former origin port, and the reload is to end it.
neighbours() {
  listeners | head -n 8 |
    while read -r address listens; do
      [ "$listens" != "$port" ] || continue
      case $address in "$any4" | '*') address=$loopback4 ;; '[::]') address=$loopback6 ;; esac
      address=${address#[} address=${address%]}
      # shellcheck disable=SC2016 # the inner shell's own arguments
      timeout 3 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "HEAD / HTTP/1.0\r\nUser-Agent: pushgate\r\n\r\n" >&3 &&
        IFS= read -r line <&3 && [[ $line = HTTP/* ]] || exit 1
        while IFS= read -r line <&3 && [[ $line != $'"'\\r'"' ]]; do
          [[ $line != "X-Served-By: $3"* ]] || exit 1
        done' - "$address" "$listens" "${answer#* }" 2>/dev/null && echo "$address $listens"
    done || :
}

# Reloads nginx, and waits for workers that were not there before and stay alive.
take_up() {
  former=$(workers | tr '\n' ' ')
  systemctl reload nginx.service
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    fresh=
    for worker in $(workers); do
      case " $former" in *" $worker "*) ;; *) fresh="$fresh $worker" ;; esac
    done
    [ -z "$fresh" ] || break
    sleep 0.2
  done
  [ -z "$fresh" ] || sleep 0.3
  for worker in $fresh; do kill -0 "$worker" 2>/dev/null && return 0; done
  say "nginx has no live worker with the new configuration. Its error log ends with:"
  tail -n 5 /var/log/nginx/error.log >&2 || :
  return 1
}

write_listen6() { # path, parameters
  echo "listen [::]:$2;" >"$1.new"
  chmod 0644 "$1.new"
  mv -f "$1.new" "$1"
}

activate() {
  mkdir -p "$state"
  write_trust
  if [ -e /proc/net/if_inet6 ]; then
    write_listen6 "$listen6_hooks" "$port ssl default_server"
    write_listen6 "$listen6_site" "$port ssl"
  else
    rm -f "$listen6_hooks" "$listen6_site"
  fi
  nginx -t -q
  if systemctl -q is-active nginx.service; then
    before=$(neighbours)
    take_up
  else
    before=
    : >"$started"
    systemctl start nginx.service
  fi
  # Else nginx would not start at the next boot.
  systemctl --quiet is-enabled nginx.service || {
    : >"$enabled"
    systemctl --quiet enable nginx.service
  }
  # The logs hold visitors' addresses, so they get the group and mode of Debian's own nginx logs.
  # shellcheck disable=SC2086 # a list
  set -- "$access_log" "$error_log" $site_logs
  chown :adm "$@"
  chmod 0640 "$@"
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    said=$(greeting)
    [ "$said" != "$answer" ] || break
    sleep 0.2
  done
  if [ "$said" != "$answer" ]; then
    say "port $port answers \"${said:-nothing}\", not \"$answer\". See which program listens there (ss -ltnp 'sport = :$port') and what /var/log/nginx/error.log says."
    return 1
  fi
  after=$(neighbours)
  lost=$(printf '%s\n' "$before" | grep -Fxv -e "$after" | head -n 1)
  if [ -n "$lost" ]; then
    say "another site of this nginx, on $lost, answered before the reload and does not answer now. See /var/log/nginx/error.log."
    return 1
  fi
}

# The former files are back; the workers of the rejected configuration may be dead.
reactivate() {
  write_trust
  systemctl -q is-active nginx.service || return 0
  nginx -t -q && take_up
}

# The layer's files are still there. nginx must stop serving them now, as nothing reloads it after they are removed.
retire() {
  rm -f "$conf" "$listen6_hooks" "$listen6_site" "$trusted_ca" || return 1
  if systemctl -q is-active nginx.service; then
    nginx -t -q || {
      say "nginx rejects the rest of its configuration, so it cannot stop serving pushgate's. Fix what nginx -t reports, then run npx pulumi up again."
      return 1
    }
    # Debian's own placeholder page does not count as a site.
    # shellcheck disable=SC2010 # names of one folder
    if [ -e "$started" ] && ! ls /etc/nginx/conf.d/*.conf >/dev/null 2>&1 &&
      ! ls /etc/nginx/sites-enabled 2>/dev/null | grep -qvx default; then
      systemctl stop nginx.service || return 1
    else
      take_up || return 1
    fi
  fi
  [ ! -e "$enabled" ] || systemctl --quiet disable nginx.service
  # shellcheck disable=SC2086 # a glob
  rm -f "$started" "$enabled" "$access_log"* "$error_log"* $all_site_logs*
}

# Facts

listens() {
  families=1
  [ ! -e /proc/net/if_inet6 ] || families=2
  [ "$(listeners | grep -c " $port\$")" = "$families" ] && echo yes || echo no
}

trusted() { declared_trust | cmp -s - "$trusted_ca" && echo "as declared" || echo "another CA, or none"; }

# The answer to a certificate with the name of the trusted CA and a key of its own, which is of no use afterwards.
greeting_of_foreigner() {
  scratch=$(mktemp -d)
  name=$(openssl x509 -in "$client_ca" -noout -subject -nameopt compat)
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "${name#subject=}" \
    -keyout "$scratch/key" -out "$scratch/certificate" 2>/dev/null
  greeting -cert "$scratch/certificate" -key "$scratch/key"
  rm -rf -- "$scratch"
}

# Fact: "yes" if nginx's http level has a proxy_set_body. nginx rejects the second one that this function adds, in a
# mount namespace, so that the live configuration stays as it is.
replaces_bodies() {
  scratch=$(mktemp -d)
  cp -a -- "${conf%/*}" "$scratch/conf.d"
  echo 'proxy_set_body "";' >"$scratch/conf.d/pushgate-second.conf"
  # shellcheck disable=SC2016 # the inner shell's own arguments
  said=$(unshare --mount --propagation private sh -c 'mount --bind "$1" "$2" && nginx -t' - "$scratch/conf.d" "${conf%/*}" 2>&1)
  rm -rf -- "$scratch"
  case $said in *'"proxy_set_body" directive is duplicate'*) echo yes ;; *) echo no ;; esac
}

# $1: a test of one worker. Prints "yes" where it holds for all of them.
of_each_worker() {
  for worker in $(workers); do "$1" "$worker" && echo yes || echo no; done | sort -u
}

# Bit 13 of the effective capabilities.
holds_net_raw() {
  mask=$(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  [ $((0x${mask:-0} >> 13 & 1)) = 1 ]
}

# A worker is as old as the configuration it runs. A second is the resolution of both clocks.
is_current() {
  ticks=$(sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20)
  [ $((booted + ticks / $(getconf CLK_TCK) + 1)) -ge "$newest" ]
}
workers_are_current() {
  newest=$(stat -c %Y "$conf" "$client_ca" "$trusted_ca" | sort -n | tail -n 1)
  booted=$(($(date +%s) - $(cut -d. -f1 /proc/uptime)))
  of_each_worker is_current
}
