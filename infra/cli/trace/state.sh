# shellcheck shell=dash disable=SC2154
# Prints what a host reports of its own layers: lines of "state <what> <text in base64>". Reads only. state.ts puts the
# variables in front, and the probe of the layers behind.
set -u
state() { # what; the text comes on standard input
  echo "state $1 $(base64 -w0)"
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

# KiB and files that are left to other accounts than root, and the options of the mount. btrfs counts no files.
room() { # folder
  [ -d "$1" ] || return 0
  printf '%s %s\n' "$(stat -fc '%a %S %d %c' -- "$1" | awk '{ print int($1 * $2 / 1024), $4 ? $3 : 1000000 }')" \
    "$(findmnt -nro OPTIONS -T "$1")"
}

tail -n 20 "$findings" 2>/dev/null | state findings
dropping | state drops
room "$spool" | state spool
room "$logs" | state logs
