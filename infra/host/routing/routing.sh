#!/bin/sh
# Adds the rule and the route that keep the receiver's replies on this host, where they are missing or outranked.
# Safe at any time: it removes an old rule only after it has added the new one.
set -u
export LC_ALL=C
table=@table@
pref=@pref@
fwmark=@fwmark@

# `rules` prints all rules except `local` as "pref: text", `own_rules` those that lead into pushgate's table. Not the rule of a
# former mark while a socket has that: it leaves with the socket.
rules() { ip "-$1" -N rule show | tr -s '\t ' ' ' | sed 's/ *$//; /^0:/d'; }
own_rules() {
  rules "$1" | grep "lookup $table\$" | while read -r rule; do
    former=${rule#*fwmark } former=${former%%/*}
    [ "$former" != "${fwmark%/*}" ] && ss -Hltne | grep -q " fwmark:$former " || echo "$rule"
  done
}
stays() { ip "-$1" route get "$3" from "$2" mark "${fwmark%/*}" 2>/dev/null | grep -q "dev lo table $table"; }

lowest_other() { { rules "$1" | grep -v "lookup $table\$"; echo 32766; } | sed 's/:.*//' | sort -n | head -n 1; }
# After each restart of a tunnel the rule moves further, down to pref 1, unless it goes back once no rule is before its place.
strays() { ! own_rules "$1" | grep -q "^$pref:" && [ "$(lowest_other "$1")" -gt "$pref" ]; }

# wg-quick and others add rules without a pref, which the kernel puts first: pushgate's rule then moves before them.
place() { # family, source address
  lowest=$(lowest_other "$1")
  at=$pref
  [ "$lowest" -gt "$at" ] || at=$((lowest - 1))
  if [ "$at" -lt 1 ]; then
    echo "no room before the IPv$1 rule at pref $lowest" >&2
    return 1
  fi
  own_rules "$1" | grep -Fxq "$at: from $2 fwmark $fwmark iif lo lookup $table" ||
    ip "-$1" rule add pref "$at" from "$2" fwmark "$fwmark" iif lo lookup "$table" protocol kernel || return 1
  own_rules "$1" | grep -Fxv "$at: from $2 fwmark $fwmark iif lo lookup $table" | while IFS=' :' read -r other _; do
    ip "-$1" rule del pref "$other" table "$table"
  done
  echo "placed the IPv$1 rule at pref $at"
}

assert() { # family, source address, any visitor
  if ! ip "-$1" route show table "$table" 2>/dev/null | grep -q '^local default dev lo'; then
    ip "-$1" route replace local default dev lo table "$table" protocol kernel || return 1
    echo "placed the IPv$1 route"
  fi
  # Any other route of the table would come first for some visitors.
  # shellcheck disable=SC2086
  ip "-$1" route show table "$table" | grep -v '^local default dev lo' | while read -r other; do
    ip "-$1" route del $other table "$table"
  done
  if [ "$(own_rules "$1" | sed 's/^[0-9]*: //')" != "from $2 fwmark $fwmark iif lo lookup $table" ] ||
    ! stays "$@" || strays "$1"; then
    place "$@" && stays "$@"
  fi
}

# For a fact.
[ "${1:-}" != --print ] || { own_rules "$2"; exit; }

has_ipv6() { grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null; }

assert 4 @loopback4@ @visitor4@ || exit 1
# IPv6 may be switched off while this runs, as systemd-sysctl does at boot: then nothing is left to route.
! has_ipv6 || assert 6 @loopback6@ @visitor6@ || ! has_ipv6
