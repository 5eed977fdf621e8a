# shellcheck shell=sh disable=SC2154
# The firewall layer on the host. Values: unit, needs (the nft file). The unit's restart is one nft transaction: there is
# no moment without the rules.

take_out() { nft delete table inet pushgate 2>/dev/null || :; }
