# shellcheck shell=dash disable=SC2154
# Reports to preview what is on this host: every declared path, everything the `owns` globs match, every fact, and what
# preflight reads. manifest.ts puts `facts` before it, the text of the shell that reads them, and appends the layers and the
# call on the last line: a text that was cut runs nothing. A probe only reads, and needs nothing that a bare Debian host lacks.
# The answer is one JSON document with one row per line. No output can break that form: what the host says is in base64
# or passed a character check, and one process makes rows of what the parallel jobs print.

text_cap=65536 # bytes of a file's text

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
  # The facts wait in the pipe until the long rows are written. SIGKILL ends all processes that read them.
  printf %s "$facts" | timeout -s KILL 30 sh -s 2>/dev/null | {
    layers
    [ -z "$declared" ] || declared_files
    listeners
    ssh_port
    # shellcheck disable=SC2086
    rows $short 2>/dev/null
  }
  printf '["end"]]}\n'
}
