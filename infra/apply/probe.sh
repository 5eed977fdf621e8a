# shellcheck shell=dash disable=SC2154
# Reports to preview what is on this host: every declared path, everything the `owns` globs match, every fact, and what
# preflight reads. manifest.ts puts `fact_sh` before it, the text of fact.sh, and appends the layers and the call on the
# last line: a text that was cut runs nothing. A probe only reads, and needs nothing that a bare Debian host lacks.
# The answer is one JSON document with one row per line. No output can break that form: what the host says is in base64
# or passed a character check, and one process makes rows of what the parallel jobs print.

text_cap=65536 # bytes of a file's text

# One shell reads a layer's facts, as most take no longer than its start. SIGKILL ends their processes, too.
jobs_begun=0
facts_of() { # shell
  timeout -s KILL 15 sh -c "$fact_sh$1" 2>/dev/null </dev/null &
  # Eight jobs use two cores while systemctl waits for its bus, and do not slow the site.
  jobs_begun=$((jobs_begun + 1))
  [ $((jobs_begun % 8)) -ne 0 ] || wait
}

# "fresh|" where systemd has read the files of all of pushgate's units; of each, "is-active UNIT|" and "is-enabled UNIT|" where
# that is so. One query costs as much as five other programs, and systemd answers one after the other. Nothing is known where
# systemd hangs: the facts say so. Nor with hundreds of sites, where it is more than one variable of a program may hold.
known_units() {
  shown=$(timeout -s KILL 5 systemctl show -p Id -p ActiveState -p UnitFileState -p NeedDaemonReload 'pushgate-*' 2>/dev/null) ||
    return
  words=$(printf '%s\n' "$shown" | awk -v RS= '
    /(^|\n)NeedDaemonReload=yes/ { stale = 1 }
    match($0, /(^|\n)Id=[^\n]*/) { unit = substr($0, RSTART, RLENGTH); sub(/\n?Id=/, "", unit) }
    /(^|\n)ActiveState=active(\n|$)/ { words = words "is-active " unit "|" }
    /(^|\n)UnitFileState=enabled(\n|$)/ { words = words "is-enabled " unit "|" }
    END { print (stale ? "" : "fresh|") words }')
  [ ${#words} -gt 100000 ] || printf %s "$words"
}

exists() { [ -e "$1" ] || [ -L "$1" ]; }

layer() { # name, declared paths, globs of owned paths
  declared="$declared $2"
  stamp_file=$state/stamps/$1
  if [ -s "$stamp_file" ] && [ -f "$stamp_file" ] && [ ! -L "$stamp_file" ]; then
    lines=0
    while { read -r line || [ -n "$line" ]; } && [ $((lines += 1)) -le 200 ]; do
      case $line in *[!\ a-zA-Z0-9/._:@+-]*) line=invalid ;; esac
      printf '["stamp","%s","%s"],\n' "$1" "$line"
    done <"$stamp_file"
  elif exists "$stamp_file"; then
    printf '["stamp","%s","invalid"],\n' "$1"
  fi
  for path in $3; do
    exists "$path" || continue
    case $path in
      *[!a-zA-Z0-9/._:@+-]*) printf '["owned64","%s","%s"],\n' "$1" "$(printf %s "$path" | base64 -w0)" ;;
      *) printf '["owned","%s","%s"],\n' "$1" "$path" ;;
    esac
  done
}

# Rows of the files $@, then of the facts on standard input. In base64, which perl makes of uuencode's letters: Debian's
# smallest perl has no module for it. One process for all: it costs more than its work.
rows() {
  perl -e '
    sub base64 { my $filled = -length($_[0]) % 3;
      (my $text = pack "u", $_[0]) =~ s/^.|\n//gm;
      $text =~ tr/` -_/AA-Za-z0-9+\//;
      return substr $text, 0, length($text) - $filled }
    for my $path (@ARGV) {
      open my $file, "<", $path or next;
      read $file, my $text, -s $file;
      printf "[\"text64\",\"%s\",\"%s\"],\n", $path, base64($text) }
    while (<STDIN> =~ /^(\S+) (\S+) (\d+) (\d+) (.*)$/) {
      my ($kind, @of) = ($1, $2, $3, $4);
      (my $text = $5) =~ tr/\1/\n/;
      ($kind, $text) = ("${kind}64", base64($text)) if $text =~ m{[^ a-zA-Z0-9/._:@+-]};
      printf "[\"%s\",\"%s\",%d,%d,\"%s\"],\n", $kind, @of, $text }' -- "$@"
}

declared_files() {
  # One process for all files: it costs more than its work.
  # shellcheck disable=SC2086
  seen=$(stat --printf '%n %a %U:%G %s %F\n' -- $declared 2>/dev/null)
  regular=''
  while read -r path mode owner size type; do
    [ -n "$path" ] || continue
    printf '["file","%s","%s","%s","%s"],\n' "$path" "$type" "$mode" "$owner"
    case $type in regular*) regular="$regular $path" ;; *) continue ;; esac
    [ "$size" -gt "$text_cap" ] || short="$short $path"
  done <<SEEN
$seen
SEEN
  # shellcheck disable=SC2086
  [ -z "$regular" ] || sha256sum -- $regular 2>/dev/null </dev/null |
    sed -n 's/^\([0-9a-f]\{64\}\) [ *]\(.*\)$/["sha256","\2","\1"],/p'
}

# As the host sees it, behind any NAT.
ssh_port() { printf '["ssh","%s"],\n' "$(printf %s "${SSH_CONNECTION##* }" | tr -cd 0-9)"; }

# Port, process and unit of each listening TCP socket, as report.ts has them.
listeners() {
  ss -Hltnpe 2>/dev/null </dev/null | awk '
    { port = $4; sub(/.*:/, "", port); name = ""; unit = ""
      if (match($0, /"[^"]*"/)) name = substr($0, RSTART + 1, RLENGTH - 2)
      if (match($0, / cgroup:\/[^ ]*/)) { unit = substr($0, RSTART, RLENGTH); sub(/.*\//, "", unit) }
      gsub(/[^a-zA-Z0-9._:@+-]/, "?", name); gsub(/[^a-zA-Z0-9._:@+-]/, "?", unit)
      if (port ~ /^[0-9]+$/ && !seen[port " " name " " unit]++)
        print "[\"listens\"," port ",\"" name "\",\"" unit "\"]," }'
}

probe() { # state folder
  state=$1
  declared='' short=''
  printf '{"pushgate":1,"rows":[\n'
  # The facts wait in the pipe until the long rows are written.
  {
    system_facts
    known=$(known_units)
    export known
    facts
    wait
  } | {
    layers
    [ -z "$declared" ] || declared_files
    listeners
    ssh_port
    # shellcheck disable=SC2086
    rows $short 2>/dev/null
  }
  printf '["end"]]}\n'
}
