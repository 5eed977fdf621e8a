# shellcheck shell=dash disable=SC2154
# Reports to preview what is on this host: every declared path, everything the `owns` globs match, every fact, and what
# preflight reads. manifest.ts puts `facts` before it, the text of the shell that reads them, and appends the layers and the
# call on the last line: a text that was cut runs nothing. A probe only reads, and needs nothing that a bare Debian host lacks.
# The answer is one JSON document with one row per line. No output can break that form: what the host says is in base64
# or passed a character check, and one process makes rows of what the parallel jobs print.

layer() { # name, declared paths, globs of owned paths
  names="$names $1" declared="$declared $2"
  for path in $3; do
    [ -e "$path" ] || [ -L "$path" ] || continue
    case $path in
      *[!a-zA-Z0-9/._:@+-]*) printf '["owned64","%s","%s"],\n' "$1" "$(printf %s "$path" | base64 -w0)" ;;
      *) printf '["owned","%s","%s"],\n' "$1" "$path" ;;
    esac
  done
}

# Rows of stamps, of declared files, then of the facts on standard input. One process for all: a process costs more than its
# work. Text is in base64, which perl makes of uuencode's letters: Debian's smallest perl has no module for it.
rows() { # folder of the stamps, layers, declared paths
  perl -e '
    my ($stamps, $layers, @declared) = @ARGV;
    my $special = qr{[^ a-zA-Z0-9/._:@+-]};
    sub base64 { my $filled = -length($_[0]) % 3;
      (my $text = pack "u", $_[0]) =~ s/^.|\n//gm;
      $text =~ tr/` -_/AA-Za-z0-9+\//;
      return substr $text, 0, length($text) - $filled }
    sub text { open my $file, "<", $_[0] or return ""; read $file, my $text, 1 << 18; return $text }
    for my $layer (split " ", $layers) {
      lstat "$stamps/$layer" or next;
      my @lines = -f _ && -s _ ? split /\n/, text("$stamps/$layer") : "?";
      printf "[\"stamp\",\"%s\",\"%s\"],\n", $layer, /$special/ ? "invalid" : $_ for splice @lines, 0, 200 }
    my @regular;
    for my $path (@declared) {
      my ($mode, $user, $group, $size) = (lstat $path)[2, 4, 5, 7] or next;
      my $type = -l _ ? "symbolic link" : -d _ ? "directory" : -p _ ? "fifo" : -S _ ? "socket" : -f _ ? "regular file" : "device";
      my ($name, $of) = (scalar getpwuid $user, scalar getgrgid $group);
      printf "[\"file\",\"%s\",\"%s\",\"%o\",\"%s:%s\"],\n", $path, $type, $mode & 07777, $name // "UNKNOWN", $of // "UNKNOWN";
      -f _ or next;
      push @regular, $path;
      printf "[\"text64\",\"%s\",\"%s\"],\n", $path, base64(text($path)) if $size <= 65536 }
    if (@regular and open my $sums, "-|", "sha256sum", "--", @regular) {
      /^([0-9a-f]{64}) [ *](.*)$/ and printf "[\"sha256\",\"%s\",\"%s\"],\n", $2, $1 while <$sums> }
    while (<STDIN> =~ /^(\S+) (\S+) (\d+) (\d+) (.*)$/) {
      my ($kind, @of) = ($1, $2, $3, $4);
      (my $text = $5) =~ tr/\1/\n/;
      ($kind, $text) = ("${kind}64", base64($text)) if $text =~ $special;
      printf "[\"%s\",\"%s\",%d,%d,\"%s\"],\n", $kind, @of, $text }' -- "$@" 2>/dev/null
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
  names='' declared=''
  printf '{"pushgate":1,"rows":[\n'
  # The facts wait in the pipe until the long rows are written. SIGKILL ends all processes that read them.
  printf %s "$facts" | timeout -s KILL 30 sh -s 2>/dev/null | {
    layers
    listeners
    ssh_port
    # shellcheck disable=SC2086
    rows "$state/stamps" "$names" $declared
  }
  printf '["end"]]}\n'
}
