#!/bin/sh
# Asserts the rule and the route that keep the receiver's replies on this machine; idempotent, and
# nothing is ever missing for a moment.
set -u
export LC_ALL=C
table=@table@
pref=@pref@
fwmark=@fwmark@

# The rules that lead into our table, and all others but `local`, as "pref: text".
listed() { ip "-$1" -N rule show | tr -s '\t ' ' ' | sed 's/ *$//; /^0:/d'; }
ours() { listed "$1" | grep "lookup $table\$"; }
stays() { ip "-$1" route get "$3" from "$2" mark "${fwmark%/*}" 2>/dev/null | grep -q "dev lo table $table"; }

# A rule that is added without a pref goes before all others, as wg-quick's do: ours is then added before it again.
place() { # family, source address
  lowest=$(listed "$1" | grep -v "lookup $table\$" | sed 's/:.*//' | sort -n | head -n 1)
  at=$pref
  [ "${lowest:-32766}" -gt "$at" ] || at=$((lowest - 1))
  if [ "$at" -lt 1 ]; then
    echo "no room before the IPv$1 rule at pref $lowest" >&2
    return 1
  fi
  ours "$1" | grep -Fxq "$at: from $2 fwmark $fwmark iif lo lookup $table" ||
    ip "-$1" rule add pref "$at" from "$2" fwmark "$fwmark" iif lo lookup "$table" protocol kernel || return 1
  ours "$1" | grep -Fxv "$at: from $2 fwmark $fwmark iif lo lookup $table" | while IFS=' :' read -r other _; do
    ip "-$1" rule del pref "$other" table "$table"
  done
  echo "placed the IPv$1 rule at pref $at"
}

assert() { # family, source address, some visitor
  if ! ip "-$1" route show table "$table" 2>/dev/null | grep -q '^local default dev lo'; then
    ip "-$1" route replace local default dev lo table "$table" protocol kernel || return 1
    echo "placed the IPv$1 route"
  fi
  if [ "$(ours "$1" | sed 's/^[0-9]*: //')" != "from $2 fwmark $fwmark iif lo lookup $table" ] || ! stays "$@"; then
    place "$@" && stays "$@"
  fi
}

assert 4 @loopback4@ @visitor4@ || exit 1
if grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null; then
  assert 6 @loopback6@ @visitor6@ || exit 1
fi
