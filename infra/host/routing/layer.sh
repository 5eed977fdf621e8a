take_out() {
  for family in 4 6; do
    while ip "-$family" rule del table "$table" 2>/dev/null; do :; done
    ip "-$family" route flush table "$table" 2>/dev/null
  done
  :
}

# Facts of one family, 4 or 6. A host without ::1 has nothing to route for 6: each fact then prints the declared $2.
lacks() { [ "$1" = 6 ] && ! grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null && echo "$2"; }

rule() { lacks "$@" || "$needs" --print "$1" | sed 's/^[0-9]*: //'; }

# Without the attributes that the kernel adds. Any other route of the table would come first for its visitors.
routes() { lacks "$@" || ip "-$1" route show table "$table" 2>/dev/null | sed 's/\( dev lo\) .*/\1/'; }

# Rule and route can be there while another rule comes first: the kernel reports where a reply to $4 would go.
way_of_reply() { # family, way, source address, visitor
  lacks "$@" || ip "-$1" route get "$4" from "$3" mark "$mark" 2>&1 | grep -o "$2" || echo elsewhere
}
