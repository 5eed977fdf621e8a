#!/bin/sh
# shellcheck disable=SC1091,SC2046,SC2086,SC2154 # egress.conf is rendered, and holds lists
# Limits the network access of the sites' accounts to name servers and to the git hosts' ports on the internet. Loads the
# table in one transaction, so there is no moment without it; with --print it only prints the table. Runs at boot, every
# minute by the guard, and where a builder finds that no table limits it, which then does not run.
set -fu
export LC_ALL=C
# accounts: a line for each; private4, private6: ranges that are not the internet; itself4, itself6: loopback.
. /etc/pushgate/egress.conf
resolv=/etc/resolv.conf

# Sets servers4 and servers6. resolv.conf(5): without a name server, the host itself is queried.
resolvers() {
  found=$(sed -n 's/^[[:blank:]]*nameserver[[:blank:]]\{1,\}\([^[:blank:]#;]*\).*/\1/p' "$resolv" 2>/dev/null | sort -u)
  servers4='' servers6=''
  for address in ${found:-$itself4 $itself6}; do
    case $address in
      *%*) echo "egress: $resolv names $address, which is left out: nftables cannot match an address with a zone" >&2 ;;
      *[!0-9a-fA-F:.]*) echo "egress: $resolv names $address, which is left out: it is not an IP address" >&2 ;;
      *:*) servers6=$servers6${servers6:+,}$address ;;
      *.*.*.*) servers4=$servers4${servers4:+,}$address ;;
    esac
  done
}

allow() { # family word, addresses, ports, protocol
  [ -z "$2" ] || echo "    $1 daddr { $2 } $4 dport { $3 } accept"
}

# `local`: firewalls admit what a host sends to itself, also at its public address. `closed` rejects at once: a build would
# wait for minutes for a connection without an answer.
chain() { # account, ports, IPv4 and IPv6 ranges beside the internet
  echo "  chain $1 {"
  if [ -n "$2" ]; then
    for protocol in udp tcp; do
      allow ip "$servers4" 53 "$protocol"
      allow ip6 "$servers6" 53 "$protocol"
    done
    echo "    fib daddr type local goto closed"
    allow ip "$3" "$2" tcp
    allow ip6 "$4" "$2" tcp
    echo "    ip daddr != @private4 tcp dport { $2 } accept"
    echo "    ip6 daddr != @private6 tcp dport { $2 } accept"
  fi
  echo "    goto closed"
  echo "  }"
}

# What the function $1 prints of each account.
of_each() {
  printf '%s\n' "$accounts" | while IFS=';' read -r account ports also4 also6; do
    [ -z "$account" ] || "$1" "$account" "$ports" "$also4" "$also6" || return 1
  done
}

jump() { # account
  entry=${entries#*"|$1:"}
  [ "$entry" != "$entries" ] || {
    echo "egress: the account $1 is missing. Run npx pulumi up." >&2
    return 1
  }
  entry=${entry#*:}
  echo "    meta skuid ${entry%%:*} jump $1"
}

table() {
  resolvers
  entries=$(getent passwd $(printf '%s\n' "$accounts" | cut -d ';' -f 1) | sed 's/^/|/')
  jumps=$(of_each jump) || return 1
  cat <<TABLE
table inet pushgate_egress
delete table inet pushgate_egress
table inet pushgate_egress {
  set private4 {
    type ipv4_addr
    flags interval
    elements = { $private4 }
  }
  set private6 {
    type ipv6_addr
    flags interval
    elements = { $private6 }
  }
  chain closed {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
$(of_each chain)
  chain output {
    type filter hook output priority filter; policy accept;
$jumps
  }
}
TABLE
}

text=$(table) || exit 1
if [ "${1:-}" = --print ]; then printf '%s\n' "$text"; else printf '%s\n' "$text" | nft --file -; fi
