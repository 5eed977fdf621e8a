# shellcheck shell=dash disable=SC2154
# Prints what a host reports of its own layers, for `npx pushgate trace`: lines of "state <what> <text in base64>". Reads
# only. trace-state.ts puts the variables in front (port: the origin port; spool and logs: folders; sockets: units), and the
# probe of the layers behind.
set -u
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
state() { # what; the text comes on standard input
  echo "state $1 $(base64 -w0)"
}

# The guard prints a line a minute, nearly always this one.
guard_lines() {
  timeout 5 journalctl --quiet --no-pager --output=json --output-fields=MESSAGE --since='7 days ago' \
    _SYSTEMD_UNIT=pushgate-guard.service SYSLOG_IDENTIFIER=pushgate-guard | grep -aFv '"MESSAGE":"proven"' | tail -n 20
}

# In a container the kernel's log is its host's.
kernel_lines() {
  timeout 5 journalctl --quiet --no-pager --output=short-iso --since='1 day ago' _TRANSPORT=kernel |
    grep -aF 'pushgate not from Cloudflare: ' | tail -n 3
}

# Other tables with a base chain on the way in, and what there may drop a connection to the origin port: a policy, or a
# rule that names no port or this one.
dropping() {
  timeout 5 nft --terse list ruleset 2>/dev/null | awk -v port="$port" '
    /^table / { table = $2 " " $3; own = $2 == "inet" && $3 ~ /^pushgate/; next }
    own { next }
    $1 == "chain" { chain = $2; next }
    / hook (input|prerouting|ingress) / { base[table] = 1; if (/policy drop/) found[++n] = table " " chain ": policy drop" }
    / hook / { next }
    / (drop|reject)( |$)/ {
      if (/dport [0-9{]/ && !/dport [^}]*[0-9]-/ && $0 !~ "dport[^}]*[^0-9]" port "([^0-9]|$)") next
      gsub(/^[ \t]+/, ""); found[++n] = table " " chain ": " $0
    }
    END { for (i = 1; i <= n; i++) { split(found[i], word, " "); if (base[word[1] " " word[2]] && ++shown <= 5) print found[i] } }'
}

# Blocks and files that are left to other accounts than root, and the options of the mount.
room() { # folder
  [ -d "$1" ] || return 0
  printf '%s %s\n' "$(stat -fc '%a %S %d' -- "$1")" "$(findmnt -nro OPTIONS -T "$1")"
}

guard_lines | state guard
kernel_lines | state kernel
dropping | state drops
nft list counters table inet pushgate 2>/dev/null | state counters
room "$spool" | state spool
room "$logs" | state logs
for unit in $sockets; do systemctl show -p IPAddressAllow --value "$unit" | state "$unit"; done
