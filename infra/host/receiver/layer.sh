# A socket that is bound as declared is never restarted, as what waits in it would be lost. systemd does not start a socket
# while its service runs, so a new socket starts inside the service's restart: one transaction for both, and deliveries for
# the other sockets wait in them.

# Listeners on port $1, one a line: address, mark, control group, whose allowlist the kernel enforces. From the kernel: after
# a daemon-reload the unit shows the file's values, and a running service still holds the former listener.
listening() {
  ss -Hltne 2>/dev/null |
    sed -n "s/^[^ ]* *[^ ]* *[^ ]* *\([^ ]*:$1\) .* fwmark:\(0x[0-9a-f]*\) cgroup:\([^ ]*\).*/\1 \2 \3/p" | sort
}

# Those that socket file $1 declares, in the same form; IPv6 only where the kernel has it.
declared() {
  [ -e /proc/net/if_inet6 ] && others='^$' || others='^\\['
  awk -F= -v others="$others" -v unit="${1##*/}" '
    $1 == "ListenStream" && $2 !~ others { address[++n] = $2 }
    $1 == "Mark" { mark = $2 }
    $1 == "Slice" { slice = $2 }
    END { for (i = 1; i <= n; i++) print address[i], mark, "/" slice "/" unit }' "$1" | sort
}

port_of() { sed -n 's/^ListenStream=.*:\([0-9]*\)$/\1/p;T;q' "$1"; }

# Whether the receiver answers a request for its metrics, to whose socket it listens last.
serves() {
  # PF_UNIX and SOCK_STREAM are 1. Perl's own module for them takes three times as long as all else.
  perl -e '$SIG{ALRM} = sub { exit 1 }; alarm 1; socket(S, 1, 1, 0) && connect(S, pack("Sa*", 1, $ARGV[0]))
    && syswrite(S, "GET /metrics HTTP/1.0\r\n\r\n") && sysread(S, $_, 1) or exit 1' -- "$metricsPath"
}

# nginx connects to the socket of a source set that left until its own layer is applied, which ends the socket. Fails where
# nginx or a declared socket does not allow that.
keep_for_now() { # removed path
  former=$state/work/old$1
  [ -e "$former" ] && systemctl is-active --quiet "${1##*/}" || return 1
  port=$(port_of "$former")
  # shellcheck disable=SC2086 # a pattern
  grep -qs ":$port;" "$nginx" && ! grep -qs "^ListenStream=.*:$port\$" "$units"/$everySocket && cp "$former" "$run_units"
}

# Starts sockets and service as the files declare them; where $renew is yes, the service restarts in any case.
take_up() {
  # Sockets of removed source sets, and that for metrics after any change: no delivery waits in it.
  for path in $changed; do
    # shellcheck disable=SC2254 # a pattern
    case $path in
      "$units"/$everySocket) [ ! -e "$path" ] || continue ;;
      */"$metrics" | */"$metrics.d"/*) path=$units/$metrics ;;
      *) continue ;;
    esac
    keep_for_now "$path" || systemctl stop "${path##*/}" 2>/dev/null || :
    [ -e "$path" ] || rm -f "$units/sockets.target.wants/${path##*/}"
    renew=yes
  done
  # shellcheck disable=SC2086
  if systemctl is-active --quiet "$slice"; then systemctl daemon-reload; else reload_stale $sockets "$metrics" "$service" "$slice"; fi
  for path in "$units"/$everySocket; do
    [ -e "$path" ] || continue
    unit=${path##*/}
    rm -f "$run_units/$unit"
    if systemctl is-active --quiet "$unit"; then
      [ "$(listening "$(port_of "$path")")" != "$(declared "$path")" ] || continue
      say "$unit is not bound as declared, restarting it"
      systemctl stop "$unit"
    fi
    systemctl reset-failed "$unit" 2>/dev/null || :
    renew=yes
  done
  systemctl is-active --quiet "$service" || renew=yes
  systemctl is-active --quiet "$metrics" || renew=yes
  # A receiver that cannot use its settings exits within a second.
  [ "$renew" = no ] || restart_and_watch "$service"
  # systemd 252 enforces a changed allowlist with the daemon-reload. 257 does so only when a unit starts in the same
  # slice, and admits a removed range until then.
  systemd-run --quiet --wait --collect --slice="$slice" --unit=pushgate-receiver-lists true
}

activate() {
  install_programs
  systemd-sysusers "$sysusers"
  settle_account "$user" "$spool" "$group"
  systemd-tmpfiles --create "$tmpfiles"
  for folder in "$spool"/*/; do
    folder=${folder%/}
    among "${folder##*/}" "$hooks" || rmdir -- "$folder" 2>/dev/null ||
      say "kept $folder: it holds accepted deliveries of a hook that is no longer declared"
  done

  renew=$new_program
  for path in $changed; do
    case $path in
      "$settings" | */"$service" | */"$service.d"/* | */pushgate-.*) renew=yes ;;
    esac
  done
  # shellcheck disable=SC2086 # `take_up` has systemd read the files
  systemctl enable --quiet --no-reload $sockets "$metrics" "$service"
  take_up
  # No unit uses these any more.
  for path in "$credentials"/*; do among "${path##*/}" "$encrypted" || rm -rf -- "$path"; done
  prove
  rm -rf "$incoming"
}

# The guard's verdict fails the apply, except where a later layer of this `up` replaces files that the guard works with:
# that layer starts the guard again.
prove() {
  [ -e "$units/$guard" ] || return 0
  current=yes
  for other in routing firewall guard; do as_installed "$other" || current=no; done
  grep -qxF "must_reject='$mustReject'" "$guardConfiguration" || current=no
  # The sockets that the guard closed are open again: they are proven in any case.
  [ "$current" = yes ] || [ -s /run/pushgate-guard/closed ] || return 0
  # A run that has begun may have looked before the change.
  [ "$(systemctl is-active "$guard")" != activating ] || systemctl start "$guard" || :
  systemctl start "$guard" || {
    cat /run/pushgate-guard/verdict >&2
    [ "$current" = no ] || exit 1
  }
}

# Sockets may still be bound as the rejected files declare.
reactivate() {
  restore_programs
  renew=yes
  if [ -e "$units/$service" ]; then
    take_up
    prove
  else
    systemctl stop "$service" 2>/dev/null
    systemctl daemon-reload
  fi
}

retire() {
  cd "$units" || exit 1
  # shellcheck disable=SC2086 # a pattern
  remove_units $everySocket "$metrics" "$service" || exit 1
  # shellcheck disable=SC2086 # a pattern
  (cd "$run_units" && rm -f $everySocket)
  systemctl stop "$slice" 2>/dev/null
  remove_programs
  remove_empty "$starts" "${metricsPath%/*}" sockets.target.wants
  # Half-written files never were a delivery; every other file was accepted and is kept.
  find "$spool" -mindepth 2 -maxdepth 2 -type f -name '.*.tmp' -delete 2>/dev/null
  find "$spool" -depth -type d -empty -delete 2>/dev/null
  if [ -d "$spool" ]; then
    { chown -R root:root "$spool" && chmod -R u=rwX,g=,o= "$spool"; } || exit 1
    say "kept $spool: $(find "$spool" -type f | wc -l) accepted deliveries were never built; remove the folder if they are of no use"
  fi
  ! id "$user" >/dev/null 2>&1 || userdel "$user" || exit 1
  for name in "$group" "$metricsGroup"; do
    ! getent group "$name" >/dev/null || groupdel "$name" || exit 1
  done
}

# Facts; $1 is a socket's unit, $2 its port.
bound() {
  found=$(listening "$2")
  if [ "$found" = "$(declared "$units/$1")" ]; then echo yes; else echo "${found:-nothing}" | paste -sd , -; fi
}

# One query of systemd for all sockets, and for the slices above, whose ranges systemd adds.
# shellcheck disable=SC2086
before_facts() { allowlists=$(timeout -s KILL 5 systemctl show -p Id -p IPAddressAllow -p IPAddressDeny -- $sockets "$slice" -.slice); }

admits() {
  [ -n "${allowlists-}" ] || before_facts
  printf '%s\n' "$allowlists" | perl -00 -ne 'BEGIN { %of = map { $_ => 1 } splice @ARGV }
    /^Id=(.*)$/m && $of{$1} or next;
    push @{$has{$1}}, split " ", $2 while /^IPAddress(\w+)=(.*)$/mg;
    END { printf "%s, not %s", map { join " ", sort @{$has{$_}} } "Allow", "Deny" }' -- "$1" "$slice" -.slice
}
