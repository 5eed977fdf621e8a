# shellcheck shell=dash disable=SC2154
# Prints log lines of this host: "z <offset of local time>" first, then "j <journal entry as JSON>" and "n <line of nginx>".
# logs.ts puts the variables in front: units, files, lines (of each log), since, delivery (a text that each line must hold, or
# nothing), follow (yes or no).
set -u
export LC_ALL=C
echo "z $(date +%z)"
journal() {
  set -f
  for unit in $units; do set -- "$@" --unit="$unit"; done
  set +f
  [ -z "$units" ] || journalctl --quiet --no-pager --output=json --output-fields=MESSAGE,_SYSTEMD_UNIT,UNIT "$@"
}
holding() { if [ -z "$delivery" ]; then cat; else grep -F -e "$delivery"; fi; }
marked() { sed -u "s/^/$1 /"; }
if [ "$follow" = yes ]; then
  journal --lines="$lines" --follow | marked j &
  for file in $files; do tail -n "$lines" -F "$file" 2>/dev/null | marked n & done
  # Standard input ends when the operator's ssh does.
  cat >/dev/null
  kill 0
fi
journal --since="$since" | holding | tail -n "$lines" | marked j
for file in $files; do
  for each in "$file.1" "$file"; do [ ! -r "$each" ] || cat "$each"; done | holding | tail -n "$lines" | marked n
done
:
