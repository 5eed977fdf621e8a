# shellcheck shell=dash disable=SC2016
# What preflight reads of any host, beside the facts of the layers.

system() { fact system "$1" 0 "$2"; } # name shell

# Prints "running" if the first process of a control group runs a program. Its version was checked before it started, and a
# start of Node costs as much as twenty of a small program.
runs() { # control group, program
  read -r pid <"/sys/fs/cgroup/$1/cgroup.procs" && [ "/proc/$pid/exe" -ef "$2" ] && echo running
}

system os '. /etc/os-release && printf "%s %s" "$ID" "$VERSION_ID"'
system uid 'id -u'
system pid1 'read -r name </proc/1/comm && echo "$name"'
system apt 'command -v apt-get'
system systemd 'grep -om1 "libsystemd-shared-[0-9]*" /proc/1/maps || systemctl --version'
system nft 'nft --version'
system nginx 'runs system.slice/pushgate-nginx.service /usr/sbin/nginx || /usr/sbin/nginx -v 2>&1'
system nodejs 'runs pushgate.slice/pushgate-receiver.service /usr/bin/node || /usr/bin/node --version'
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
  my $bpf = $number{$ARGV[0]} or exit 3;
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
  print $found ? "absent" : "unknown"'\'' "$(uname -m)"'
system sendmail '[ -e /usr/sbin/sendmail ] && echo there'
# Last: preflight takes a report without it as cut.
system dnat 'nft -t list ruleset | sed -n "/[dD][nN][aA][tT]/s/.*dport \({[^}]*}\|[^ ]*\).*/\1/p" | sort -u'
