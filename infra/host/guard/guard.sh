#!/bin/sh
# shellcheck disable=SC1091,SC2154 # guard.conf is rendered
# Every minute and at boot, the guard restores the firewall's table, the egress table and the routing rule, then proves
# the allowlist by connecting. Without the firewall, or if the proof fails, it stops the receiver and its sockets, and opens
# them again once the proof holds; a socket that the operator stopped stays stopped. It runs each program by its
# interpreter: one that lost its execute bit closes nothing.
#
# $run/verdict holds the last finding, which preview reads; $run/findings, for `npx pushgate trace`, a line for each change
# of it: time, code, finding, fix, between tabs; $run/closed names the sockets that the guard stopped.
set -u
export LC_ALL=C
# must_reject: sources that every socket must reject; ports: of the sockets; table: the firewall's file; receiver: the
# service; sockets: patterns of the receiver's sockets; builds: of the services that run for sites; nginx: its service.
. /etc/pushgate/guard.conf
lib=/usr/local/lib/pushgate
run=${RUNTIME_DIRECTORY:-/run/pushgate-guard}
trial=0
closing=0

finish() { # exit status, code, finding, fix
  [ "$trial" = 0 ] || nft delete table inet pushgate_trial
  tab=$(printf '\t')
  new="$2$tab$(printf %s "$3" | tr '\n\t' '  ')$tab${4-}"
  touch "$run/findings"
  if [ "$(tail -n 1 "$run/findings" | cut -f 2-)" != "$new" ]; then
    echo "$(date +%s)$tab$new" | cat "$run/findings" - | tail -n 20 >"$run/findings.new"
    mv "$run/findings.new" "$run/findings"
  fi
  text="$3${4:+; fix: $4}"
  [ "$closing" = 0 ] || text="closed: $text; the guard opens the sockets again once the proof holds"
  printf '%s\n' "$text" | tee "$run/verdict"
  exit "$1"
}

close() { # code, why, fix
  open=$(systemctl list-units --plain --no-legend --state=active "$sockets" | cut -d ' ' -f 1)
  if [ -n "$open" ]; then
    printf '%s\n' "$open" >"$run/closed"
    # shellcheck disable=SC2086
    systemctl stop $open "$receiver"
  fi
  closing=1
  finish 1 "$@"
}

leaks() { # what connects, unit
  if systemctl show -p IPIngressPackets --value "$2" | grep -qx '\[no data\]'; then
    close kernel "$1: the kernel does not enforce IPAddressAllow here" "use a kernel with CONFIG_CGROUP_BPF, and in a container allow bpf()"
  else
    close allowlist "$1: the live allowlist of $2 is wider than the declared one" "systemctl cat $2, then run npx pulumi up"
  fi
}

# What a slice above a socket admits is added to the socket's allowlist, and `systemctl show` of the socket omits it. The
# prober may try none of those sources.
parents() {
  for slice in $(systemctl show -p Slice --value "$sockets" | sort -u); do
    while [ -n "$slice" ]; do
      allowed=$(systemctl show -p IPAddressAllow --value -- "$slice")
      [ -z "$allowed" ] ||
        close slice "$slice admits $allowed, which is added to the allowlists of the sockets below it" "remove IPAddressAllow from $slice: systemctl cat -- $slice shows its file"
      case $slice in
        -.slice) slice= ;;
        *-*) slice=${slice%-*}.slice ;;
        *) slice=-.slice ;;
      esac
    done
  done
}

firewall() {
  drift=$(sh "$lib/firewall-drift")
  [ "$drift" != "as declared" ] || return 0
  # Once more: another program may have changed tables at that moment.
  said=$(nft --file "$table" 2>&1 || { sleep 1 && nft --file "$table" 2>&1; }) ||
    close firewall "the firewall's table is not as declared and could not be loaded: $said" "nft --check --file $table"
  echo "the firewall's table was not as declared, loaded it again: $drift"
  # A stop of nftables.service stops it.
  systemctl --no-block start pushgate-firewall.service
}

# On a host that builds sites. Without the table the build accounts may connect to any address; the next start of a builder
# loads it itself, and fails without it.
egress() {
  [ -e "$lib/egress" ] || return 0
  drift=$(sh "$lib/egress" --print 2>/dev/null | sh "$lib/firewall-drift" pushgate_egress -)
  [ "$drift" != "as declared" ] || return 0
  if said=$(sh "$lib/egress" 2>&1); then
    echo "the egress table was not as declared, loaded it again: $drift"
    systemctl --no-block start pushgate-egress.service
  else
    # shellcheck disable=SC2086
    (set -f && systemctl stop $builds)
    echo "the egress table could not be loaded, stopped all builds: $said"
  fi
}

# A restart, which loses nothing, puts an upgraded program or library into force. dpkg keeps a file's time of modification,
# not that of its inode's change.
upgrade() { # service, program
  systemctl is-active --quiet "$1" || return 0
  since=$(systemctl show --timestamp=unix -p ExecMainStartTimestamp --value "$1")
  [ -n "$since" ] || return 0
  libraries=$(ldd "$2" | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (.*/\1/p')
  # shellcheck disable=SC2086
  newer=$(find -L "$2" $libraries -newerct "$since" | paste -sd ' ' -)
  [ -n "$newer" ] || return 0
  echo "restarting $1, because these files are newer: $newer"
  systemctl --no-block try-restart "$1"
}

# While a closed socket is tried again, only root may connect to it: nginx's workers must not before the proof. One that an
# apply has opened meanwhile stays open.
reopen() {
  [ -s "$run/closed" ] || return 0
  closed=
  while read -r unit; do
    ! systemctl is-active --quiet "$unit" && systemctl is-enabled --quiet "$unit" && closed="$closed $unit"
  done <"$run/closed"
  [ -n "$closed" ] || return 0
  nft -f - <<TABLE || close trial "the trial table cannot be loaded" "systemctl status pushgate-guard.service"
table inet pushgate_trial {
  chain output {
    type filter hook output priority filter; policy accept;
    oif lo tcp dport { $ports } meta skuid != 0 drop
  }
}
TABLE
  trial=1
  # shellcheck disable=SC2086
  systemctl start $closed
}

# An admitted source may meet a full backlog, and the prober itself may be killed: both have three attempts, a source that
# must not connect has one.
# The second miss restarts the receiver, which loses nothing, and with which systemd 257 enforces a changed allowlist.
probe() {
  for attempt in 1 2 3; do
    # shellcheck disable=SC2086
    said=$(systemctl show -p Id -p ActiveState -p Listen -p IPAddressAllow "$sockets" | perl "$lib/prober" $must_reject 2>&1)
    code=$?
    case $code in 0 | 1 | 5) break ;; 3 | 4) [ "$attempt" != 2 ] || systemctl try-restart "$receiver" ;; esac
    [ "$attempt" = 3 ] || sleep 1
  done
}

mkdir -p "$run"
nft delete table inet pushgate_trial 2>/dev/null
firewall
egress
upgrade "$nginx" /usr/sbin/nginx
upgrade "$receiver" /usr/bin/node
filtered="see whether something filters lo (nft list ruleset), and systemctl status '$sockets'"
# Whether the rule is in force shows in the proof.
sh "$lib/routing" || filtered="systemctl status pushgate-routing.service"
reopen
parents
probe
faults=$(printf '%s\n' "$said" | head -n 3 | paste -sd , - | sed 's/,/, /g')
count=$(printf '%s\n' "$said" | wc -l)
[ "$count" -le 3 ] || faults="$faults, and $((count - 3)) more"
case $code in
  0)
    [ ! -s "$run/closed" ] || echo "the proof holds again, the receiver is open"
    rm -f "$run/closed"
    finish 0 proven proven
    ;;
  1) finish 0 idle "nothing to prove: no socket of the receiver is listening" ;;
  3) finish 1 partial "the allowlist holds, but not every admitted source can connect ($faults)" "$filtered" ;;
  4) close unproven "no admitted source can connect, so nothing is proven ($faults)" "$filtered" ;;
  5) leaks "the allowlist does not hold ($faults)" "$(printf '%s\n' "$said" | sed -n 's/^connects and must not: \([^ ]*\) .*/\1/p' | head -n 1)" ;;
  *) close probe "the allowlist could not be probed: $faults" "systemctl status pushgate-guard.service" ;;
esac
