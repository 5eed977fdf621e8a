#!/bin/sh
# Prints "as declared" where the live table equals the declared file, else the lines that differ. The kernel lists a
# table in its own form, so the file is loaded into a temporary network namespace and listed there. The live table is
# only read. Arguments: the table's name and its file, "-" for standard input.
export LC_ALL=C
table=${1:-pushgate}
# shellcheck disable=SC2016 # the inner shell's own arguments
declared=$(unshare -n sh -c 'nft -f "$1" && nft -s list table inet "$2"' - "${2:-/etc/pushgate/firewall.nft}" "$table" 2>&1) ||
  declared="cannot load: $declared"
live=$(nft -s list table inet "$table" 2>/dev/null) || live=absent
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
