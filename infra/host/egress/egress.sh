#!/bin/sh
# shellcheck disable=SC1091,SC2154 # egress.conf is rendered
# Whom the accounts of the rebuild may talk to: name servers for names, git hosts for git, and nobody else. Loads the
# table in one transaction, so there is no moment without it; with --print it only says what it would load. Run at boot,
# each minute by the guard, and before each build, which does not start where this fails.
set -u
export LC_ALL=C
# builder, hugo: accounts; ports: of the git hosts; hugo_ports: of what a build may read; private4, private6: not the
# internet; also4, also6: what of it the operator opened to git.
. /etc/pushgate/egress.conf
resolv=/etc/resolv.conf

# "4 address" or "6 address", one a line. resolv.conf(5): without any, the machine itself is asked.
resolvers() {
  found=$(sed -n 's/^[[:blank:]]*nameserver[[:blank:]]\{1,\}\([^[:blank:]#;]*\).*/\1/p' "$resolv" 2>/dev/null | sort -u)
  [ -n "$found" ] || found=$(printf '%s\n' "$itself4" "$itself6")
  printf '%s\n' "$found" | while read -r address; do
    case $address in
      *%*) echo "egress: $address in $resolv is left out: an address with a zone names no one host to a filter" >&2 ;;
      *[!0-9a-fA-F:.]*) echo "egress: $address in $resolv is left out: it is no address" >&2 ;;
      *:*) echo "6 $address" ;;
      *.*.*.*) echo "4 $address" ;;
    esac
  done
}
of() { printf '%s\n' "$servers" | sed -n "s/^$1 //p" | paste -sd , -; }

# family word, set, ports, protocol
allow() {
  [ -z "$2" ] || [ -z "$3" ] || echo "    $1 daddr { $2 } $4 dport { $3 } accept"
}
names() {
  for protocol in udp tcp; do
    allow ip "$(of 4)" 53 "$protocol"
    allow ip6 "$(of 6)" 53 "$protocol"
  done
}
public() { # ports
  [ -z "$1" ] || echo "    ip daddr != @private4 tcp dport { $1 } accept
    ip6 daddr != @private6 tcp dport { $1 } accept"
}
# Told at once: a build that waits for a connection nobody answers would wait for minutes.
refuse() {
  echo "    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited"
}

table() {
  servers=$(resolvers)
  uid=$(id -u "$builder") && hugo_uid=$(id -u "$hugo") || return 1
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
  chain builder {
$(names)
$(allow ip "$also4" "$ports" tcp)
$(allow ip6 "$also6" "$ports" tcp)
$(public "$ports")
$(refuse)
  }
  chain hugo {
$([ -z "$hugo_ports" ] || names)
$(public "$hugo_ports")
$(refuse)
  }
  chain output {
    type filter hook output priority filter; policy accept;
    meta skuid $uid jump builder
    meta skuid $hugo_uid jump hugo
  }
}
TABLE
}

text=$(table) || {
  echo "egress: the accounts $builder and $hugo are missing. Cure: pulumi up" >&2
  exit 1
}
if [ "${1:-}" = --print ]; then
  printf '%s\n' "$text"
else
  printf '%s\n' "$text" | nft --file -
fi
