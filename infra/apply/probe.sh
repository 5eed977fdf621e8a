# shellcheck shell=dash
# Reports to preview what is on this host: every declared path, everything the `owns` globs match, every fact, and what
# preflight reads. manifest.ts appends the layers, and the call on the last line: a text that was cut runs nothing. It
# only reads, and needs nothing that a bare Debian host lacks.
# The answer is one JSON document with one row per line. No output can break it: what the host says is in base64 or
# passed a character check, and each row is written whole, by parallel jobs if it is shorter than PIPE_BUF.

# Bytes of a file's text. A fact's output is cut at 2 KiB, which base64 keeps under PIPE_BUF.
text_cap=65536

row_of_output() { # kind layer index shell: a row with what the shell prints and its exit status
  out=$(timeout -k 1 5 sh -c "$4" 2>/dev/null </dev/null)
  status=$?
  # Most outputs are one word: encoding each would double the number of processes.
  case $out in
    *[!\ a-zA-Z0-9/._:@+-]*)
      printf '["%s64","%s",%d,%d,"%s"],\n' "$1" "$2" "$3" "$status" "$(printf '%.2048s' "$out" | base64 -w0)"
      ;;
    *) printf '["%s","%s",%d,%d,"%.2048s"],\n' "$1" "$2" "$3" "$status" "$out" ;;
  esac
}

jobs_begun=0 script=''
start() {
  row_of_output "$@" &
  # Eight jobs use two cores while systemctl waits for its bus, and do not slow the site.
  jobs_begun=$((jobs_begun + 1))
  [ $((jobs_begun % 8)) -ne 0 ] || wait
}

fact() { # layer index shell; $script holds the layer's functions
  start fact "$1" "$2" "$script
$3"
}
system() { start system "$1" 0 "$2"; } # name shell

exists() { [ -e "$1" ] || [ -L "$1" ]; }

layer() { # name, declared paths, globs of owned paths, former name
  declared="$declared $2"
  stamp_file=$state/stamps/$1
  [ -e "$stamp_file" ] || [ -z "$4" ] || stamp_file=$state/stamps/$4
  if [ -s "$stamp_file" ] && [ -f "$stamp_file" ] && [ ! -L "$stamp_file" ]; then
    lines=0
    while { read -r line || [ -n "$line" ]; } && [ $((lines += 1)) -le 200 ]; do
      # apply.sh writes only these characters.
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

declared_files() {
  # One stat and one sha256sum for all files: on a small host a process costs more than its work.
  # shellcheck disable=SC2086
  seen=$(stat --printf '%n %a %U:%G %s %F\n' -- $declared 2>/dev/null)
  regular=
  while read -r path mode owner size type; do
    [ -n "$path" ] || continue
    printf '["file","%s","%s","%s","%s"],\n' "$path" "$type" "$mode" "$owner"
    case $type in regular*) ;; *) continue ;; esac
    regular="$regular $path"
    [ "$size" -le "$text_cap" ] || continue
    printf '["text","%s","' "$path"
    base64 -w0 2>/dev/null <"$path"
    printf '"],\n'
  done <<SEEN
$seen
SEEN
  # shellcheck disable=SC2086
  [ -z "$regular" ] || sha256sum -- $regular 2>/dev/null </dev/null |
    sed -n 's/^\([0-9a-f]\{64\}\) [ *]\(.*\)$/["sha256","\2","\1"],/p'
}

# What preflight reads. In single quotes, as a shell of its own runs each.
# shellcheck disable=SC2016
system_facts() {
  system os '. /etc/os-release && printf "%s %s" "$ID" "$VERSION_ID"'
  system uid 'id -u'
  system pid1 'cat /proc/1/comm'
  system container 'systemd-detect-virt --container'
  system apt 'command -v apt-get'
  system systemd 'systemctl --version | head -n 1'
  system nft 'nft --version'
  system nginx 'nginx -v 2>&1'
  system nodejs '/usr/bin/node --version'
  system openssh 'ssh -V 2>&1'
  # apt takes as long as everything else together, so it runs only if a package is missing.
  system candidates 'command -v nft >/dev/null && command -v nginx >/dev/null && [ -x /usr/bin/node ] ||
    apt-cache policy nftables nginx nodejs | sed -n "s/^\([a-z]*\):$/\1/p; s/^  Candidate: /=/p"'
  system aptlists 'ls /var/lib/apt/lists/*_Packages* 2>/dev/null | wc -l'
  system free 'df -Pk / /etc /var | sed 1d'
  system ipv6 '[ "$(cat /proc/sys/net/ipv6/conf/lo/disable_ipv6)" = 0 ] && grep -c . /proc/net/if_inet6'
  system iprule 'ip rule show >/dev/null && echo usable'
  system nftables 'nft list tables >/dev/null && echo usable'
  system cgroup 'stat -fc %T /sys/fs/cgroup /sys/fs/cgroup/unified 2>/dev/null; :'
  # The controllers that enforce a build's limits, as far as this kernel and the container's host provide them.
  system controllers 'cat /sys/fs/cgroup/cgroup.controllers'
  # Debian runs journald, udevd or logind with IPAddressDeny=any. If PID 1 can enforce that, a program is attached to
  # the unit's cgroup. BPF_PROG_QUERY (bpf command 16) counts such programs; perl is in every Debian.
  system bpf 'perl -e '\''
    my %number = (x86_64 => 321, aarch64 => 280, riscv64 => 280, s390x => 351, ppc64le => 361);
    my $bpf = $number{(POSIX::uname())[4]} or exit 3;
    my $found = 0;
    for my $unit ("systemd-journald", "systemd-logind", "systemd-udevd") {
      for my $root ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") {
        opendir(my $dir, "$root/system.slice/$unit.service") or next;
        my $ids = "\0" x 256;
        my $attr = pack("IIIIQI", fileno($dir), 0, 0, 0, unpack("Q", pack("P", $ids)), 64) . "\0" x 92;
        $found = 1;
        next if syscall($bpf, 16, $attr, 120) < 0;
        if (unpack("I", substr($attr, 24, 4)) > 0) { print "enforced"; exit 0 }
      }
    }
    print $found ? "absent" : "unknown"'\'' -MPOSIX'
  system dnat 'nft -t list ruleset | sed -n "/[dD][nN][aA][tT]/s/.*dport \([0-9]*\).*/\1/p" | sort -un'
  # The port of this SSH connection as the host sees it, behind any NAT. sudo drops the variable; the listeners of sshd
  # are the second source.
  printf '["ssh","%s"],\n' "$(printf %s "${SSH_CONNECTION##* }" | tr -cd 0-9)"
}

listeners() { # port and process of each listening TCP socket; the name is empty without the right to see the process
  ss -Hltnp 2>/dev/null </dev/null | awk '
    { port = $4; sub(/.*:/, "", port); name = ""
      if (match($0, /"[^"]*"/)) name = substr($0, RSTART + 1, RLENGTH - 2)
      gsub(/[^a-zA-Z0-9._:@+-]/, "?", name)
      if (port ~ /^[0-9]+$/ && !seen[port " " name]++) print "[\"listens\"," port ",\"" name "\"]," }'
}

probe() { # state folder
  state=$1
  declared=
  export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  {
    printf '{"pushgate":1,"rows":[\n'
    layers
    [ -z "$declared" ] || declared_files
    listeners
    system_facts
    facts
    wait
    printf '["end"]]}\n'
  } | cat
}
