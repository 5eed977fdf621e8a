# The unit's restart is one nft transaction: no moment lacks the rules.
take_out() { nft delete table inet pushgate 2>/dev/null || :; }
