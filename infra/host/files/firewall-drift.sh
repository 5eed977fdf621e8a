#!/bin/sh
# Prints "as declared" where the live table equals the declared file, else the lines that differ. The kernel's listing
# never equals a source file, so the file is loaded into a throwaway network namespace and listed from there; the live
# rules are only read.
export LC_ALL=C
declared=$(unshare -n sh -c '
  nft -f /etc/pushgate/firewall.nft && nft -s list table inet pushgate' 2>&1) ||
  declared="cannot load: $declared"
live=$(nft -s list table inet pushgate 2>/dev/null) || live=absent
if [ "$live" = "$declared" ]; then
  echo "as declared"
elif [ "$live" = absent ]; then
  echo "absent"
else
  {
    printf '%s\n' "$declared" | grep -Fxv -e "$live" | sed 's/^[[:space:]]*/missing: /'
    printf '%s\n' "$live" | grep -Fxv -e "$declared" | sed 's/^[[:space:]]*/added: /'
    echo "(differs)"
  } | head -n 6 | tr '\n' ' ' | cut -c 1-400 | sed 's/ *$//'
fi
