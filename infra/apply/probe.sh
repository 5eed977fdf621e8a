# shellcheck shell=dash
# What a machine answers to preview: every declared path, everything our globs match, every fact, and what preflight
# needs to know. Constant text; the program appends the paths and questions as functions, and the call on the last line,
# so that a connection cut while this is being sent runs nothing.
#
# Rules: reads only. Needs nothing a bare Debian machine lacks. The answer is one JSON document of rows, one a line:
# a row is written whole (short ones by jobs in parallel, under PIPE_BUF; long ones while no job runs), and whatever the
# machine says stands in it as base64 or has passed a character check, so that no output can break the document.

# A file's text travels up to here, 64 KiB; a fact's output up to 2 KiB, which base64 keeps under PIPE_BUF.
text_cap=65536

row_of_output() { # kind layer index shell: one question, its answer and exit status
  out=$(timeout -k 1 5 sh -c "$4" 2>/dev/null </dev/null)
  status=$?
  # Most answers are a word: encoding it would cost as many processes again as asking.
  case $out in
    *[!\ a-zA-Z0-9/._:@+-]*)
      printf '["%s64","%s",%d,%d,"%s"],\n' "$1" "$2" "$3" "$status" "$(printf '%.2048s' "$out" | base64 -w0)"
      ;;
    *) printf '["%s","%s",%d,%d,"%.2048s"],\n' "$1" "$2" "$3" "$status" "$out" ;;
  esac
}

jobs_begun=0 script=''
ask() {
  row_of_output "$@" &
  # Eight at a time: enough to use two cores while systemctl waits for its bus, too few to be felt by the site.
  jobs_begun=$((jobs_begun + 1))
  [ $((jobs_begun % 8)) -ne 0 ] || wait
}

# layer index shell; $script holds the functions of the layer
fact() {
  ask fact "$1" "$2" "$script
$3"
}
machine() { ask machine "$1" 0 "$2"; } # name shell

layer() { # name, declared paths, globs of what pushgate owns, former name
  declared="$declared $2"
  stamp_file=$state/stamps/$1
  { [ -e "$stamp_file" ] || [ -z "$4" ]; } || stamp_file=$state/stamps/$4
  if [ -f "$stamp_file" ] && [ ! -L "$stamp_file" ]; then
    lines=0
    while read -r line || [ -n "$line" ]; do
      # Ours holds these characters alone; anything else is a file somebody else wrote.
      case $line in *[!\ a-zA-Z0-9/._:@+-]*) line=invalid ;; esac
      printf '["stamp","%s","%s"],\n' "$1" "$line"
      lines=$((lines + 1))
      [ "$lines" -lt 200 ] || break
    done <"$stamp_file"
    [ "$lines" -gt 0 ] || printf '["stamp","%s","invalid"],\n' "$1"
  elif [ -e "$stamp_file" ] || [ -L "$stamp_file" ]; then
    printf '["stamp","%s","invalid"],\n' "$1"
  fi
  for path in $3; do
    { [ -e "$path" ] || [ -L "$path" ]; } || continue
    case $path in
      *[!a-zA-Z0-9/._:@+-]*) printf '["owned64","%s","%s"],\n' "$1" "$(printf %s "$path" | base64 -w0)" ;;
      *) printf '["owned","%s","%s"],\n' "$1" "$path" ;;
    esac
  done
}

declared_files() {
  # One stat and one sha256sum for all: on a small machine a process costs more than its work.
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
    base64 -w0 <"$path" 2>/dev/null
    printf '"],\n'
  done <<SEEN
$seen
SEEN
  # shellcheck disable=SC2086
  [ -z "$regular" ] || sha256sum -- $regular 2>/dev/null </dev/null |
    sed -n 's/^\([0-9a-f]\{64\}\) [ *]\(.*\)$/["sha256","\2","\1"],/p'
}

# Questions for preflight, in single quotes because each is run by a shell of its own.
# shellcheck disable=SC2016
machine_facts() {
  machine os '. /etc/os-release && printf "%s %s" "$ID" "$VERSION_ID"'
  machine uid 'id -u'
  machine pid1 'cat /proc/1/comm'
  machine container 'systemd-detect-virt --container'
  machine apt 'command -v apt-get'
  machine systemd 'systemctl --version | head -n 1'
  machine nft 'nft --version'
  machine nginx 'nginx -v 2>&1'
  machine nodejs '/usr/bin/node --version'
  machine openssh 'ssh -V 2>&1'
  # Only where a package is missing is it worth asking apt, which takes as long as everything else together.
  machine candidates 'command -v nft >/dev/null && command -v nginx >/dev/null && [ -x /usr/bin/node ] ||
    apt-cache policy nftables nginx nodejs | sed -n "s/^\([a-z]*\):$/\1/p; s/^  Candidate: /=/p"'
  machine aptlists 'ls /var/lib/apt/lists/*_Packages* 2>/dev/null | wc -l'
  machine free 'df -Pk / /etc /var | sed 1d'
  machine ipv6 '[ "$(cat /proc/sys/net/ipv6/conf/lo/disable_ipv6)" = 0 ] && grep -c . /proc/net/if_inet6'
  machine iprule 'ip rule show >/dev/null && echo usable'
  machine nftables 'nft list tables >/dev/null && echo usable'
  machine cgroup 'stat -fc %T /sys/fs/cgroup /sys/fs/cgroup/unified 2>/dev/null; :'
  # What a build's limits are counted by, as far as this kernel has it and this container's host lets it.
  machine controllers 'cat /sys/fs/cgroup/cgroup.controllers'
  # Debian runs journald, udevd or logind with IPAddressDeny=any. PIDs aside, that leaves a mark only where PID 1 can
  # enforce it: a program attached to the cgroup. BPF_PROG_QUERY (bpf command 16) counts them; perl is in every Debian.
  machine bpf 'perl -e '\''
    my %number = (x86_64 => 321, aarch64 => 280, riscv64 => 280, s390x => 351, ppc64le => 361);
    my $bpf = $number{(POSIX::uname())[4]} or exit 3;
    my $asked = 0;
    for my $unit ("systemd-journald", "systemd-logind", "systemd-udevd") {
      for my $root ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") {
        opendir(my $dir, "$root/system.slice/$unit.service") or next;
        my $ids = "\0" x 256;
        my $attr = pack("IIIIQI", fileno($dir), 0, 0, 0, unpack("Q", pack("P", $ids)), 64) . "\0" x 92;
        $asked = 1;
        next if syscall($bpf, 16, $attr, 120) < 0;
        if (unpack("I", substr($attr, 24, 4)) > 0) { print "enforced"; exit 0 }
      }
    }
    print $asked ? "absent" : "unknown"'\'' -MPOSIX'
  machine dnat 'nft -t list ruleset | sed -n "/[dD][nN][aA][tT]/s/.*dport \([0-9]*\).*/\1/p" | sort -un'
  # The port this very connection came to, behind whatever NAT; sudo drops the variable, sshd's sockets say it again.
  printf '["ssh","%s"],\n' "$(printf %s "${SSH_CONNECTION##* }" | tr -cd 0-9)"
}

listeners() { # port and process of each listening TCP socket; whoever may not see the process gets an empty name
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
    machine_facts
    facts
    wait
    printf '["end"]]}\n'
  } | cat
}
