# shellcheck shell=dash disable=SC2154
# Prints the state of this host's hooks. Reads only. host-report.ts puts the variables in front, and the calls behind.
# Output: lines of words; a text is in base64, so that it cannot pass for another line.
set -u
export TZ=UTC

encode() { base64 2>/dev/null | tr -d '\n'; }
count() { find "$1" -mindepth 1 -maxdepth 1 ! -name '.*' 2>/dev/null | wc -l; }

units() { # the hook they belong to or "-", unit names
  owner=$1
  shift
  states=$(systemctl show -p Id,LoadState,ActiveState,SubState,Result,UnitFileState,ActiveEnterTimestamp "$@" 2>/dev/null | encode)
  echo "units $owner $states"
}

hook() { # name, units of its site if it has one
  taken=$(cat "$sites/$1/work/taken" "$sites/$1/work/parked" 2>/dev/null | sort -u | wc -l)
  echo "hook $1 $(count "$spool/$1") $(($(count "$requests/$1") + $(count "$rootRequests/$1"))) $taken"
  [ ! -f "$sites/$1/status.json" ] || echo "status $1 $(encode <"$sites/$1/status.json")"
  latest=$(timeout 5 journalctl --quiet --unit="$receiver" --since="7 days ago" --reverse --lines=1 --output=json \
    --output-fields=MESSAGE --grep="\"hook\":\"$1\"" 2>/dev/null | encode)
  echo "delivery $1 $latest"
  [ $# -eq 1 ] || units "$@"
}

echo "pushgate 1 $(date -u +%Y-%m-%dT%H:%M:%SZ)"
echo "stamps $(head -qn 1 "$stamps"/* 2>/dev/null | encode)"
echo "guard $({ cat /run/pushgate-guard/verdict 2>/dev/null || echo 'the guard has not run'; } | encode)"
