#!/usr/bin/perl
# Connects to each of the receiver's sockets from an address its allowlist admits and from some it must not, and says
# what was otherwise than it should be. This is the proof that counts: unit files, `systemctl show` and
# `systemd-analyze security` read the same whether or not the kernel enforces them.
#
# Arguments: addresses that every socket must refuse. Standard input: `systemctl show -p Id -p ActiveState -p Listen
# -p IPAddressAllow` of the sockets; what is admitted is read from the running units, not from a list of our own, so
# that the proof holds in the middle of a range refresh. Needs root, and no module beyond perl-base.
#
# Prints a line a fault: "leak unit destination source", "deaf unit destination source", "unproven unit". Exit status:
# 0 proven, 1 nothing to probe, 2 could not look, 3 some admitted source cannot connect, 4 none of a socket's can,
# 5 a source connects that must not.
use strict;
use warnings;
use Errno qw(EINPROGRESS);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use POSIX ();
use Socket qw(:DEFAULT inet_pton inet_ntop pack_sockaddr_in6);

# IP_TRANSPARENT and IPV6_TRANSPARENT, which Socket does not name: bind to an address this machine does not have.
my %transparent = (4 => [0, 19], 6 => [41, 75]);

# Loopback connects within a millisecond, so silence after 0.4 s is a refusal; an admitted source may lose its SYN to a
# full backlog and gets the time of one retransmission, which comes after 1 s.
my ($silence, $patience) = (0.4, 1.3);

sub cannot_look { print "could not look: @_\n"; exit 2 }

sub family { $_[0] =~ /:/ ? 6 : 4 }

sub bytes { inet_pton(family($_[0]) == 6 ? AF_INET6 : AF_INET, $_[0]) // cannot_look("$_[0] is no address") }

sub bits { unpack('B*', $_[0]) }

sub contains {
    my ($cidr, $address) = @_;
    my ($first, $length) = split m{/}, $cidr;
    return 0 if family($first) != family($address);
    return substr(bits(bytes($first)), 0, $length) eq substr(bits(bytes($address)), 0, $length);
}

# The range's second address where it has one: the first may be a network's own.
sub inside {
    my ($first, $length) = split m{/}, $_[0];
    my $address = bytes($first);
    substr($address, -1) = chr(ord(substr($address, -1)) | 1) if $length < 8 * length $address;
    return inet_ntop(family($first) == 6 ? AF_INET6 : AF_INET, $address);
}

my %here = (4 => 1);
if (open(my $addresses, '<', '/proc/net/if_inet6')) {
    while (<$addresses>) { $here{6} = 1 if /^0{31}1 / }
}

my @units;
{
    local $/ = '';
    while (my $block = <STDIN>) {
        next unless $block =~ /^ActiveState=active$/m;
        my ($id) = $block =~ /^Id=([\w.@-]+)$/m or next;
        my @listen;
        while ($block =~ /^Listen=\[?([0-9a-f.:]+?)\]?:(\d+) \(Stream\)$/mg) { push @listen, [$1, $2] if $here{family($1)} }
        my ($allow) = $block =~ /^IPAddressAllow=(.*)$/m;
        push @units, { id => $id, listen => \@listen, allow => [split ' ', $allow // ''] };
    }
}

# One source a range, as a list that the unit names is not always the one the kernel holds: systemd 257 takes a changed
# list up only when the service stops. Of the others, those the arguments name and those only another socket admits.
my @probes;
for my $unit (@units) {
    for my $to (@{ $unit->{listen} }) {
        my $family = family($to->[0]);
        push @probes, map { { unit => $unit->{id}, to => $to, from => inside($_), admitted => 1 } }
            grep { family($_) == $family } @{ $unit->{allow} };
        my @foreign = grep { family($_) == $family } @ARGV;
        for my $other (@units) {
            my ($theirs) = grep { family($_) == $family } @{ $other->{allow} };
            next if !defined $theirs;
            my $source = inside($theirs);
            push @foreign, $source if !grep { contains($_, $source) } @{ $unit->{allow} };
        }
        my %once;
        push @probes, map { { unit => $unit->{id}, to => $to, from => $_, admitted => 0 } } grep { !$once{$_}++ } @foreign;
    }
}
exit 1 if !@probes;

sub sockaddr { family($_[0]) == 6 ? pack_sockaddr_in6($_[1], bytes($_[0])) : pack_sockaddr_in($_[1], bytes($_[0])) }

for my $probe (@probes) {
    my $family = family($probe->{from});
    my $domain = $family == 6 ? AF_INET6 : AF_INET;
    socket(my $socket, $domain, SOCK_STREAM, 0) or cannot_look("socket: $!");
    setsockopt($socket, $transparent{$family}[0], $transparent{$family}[1], pack('i', 1))
        or cannot_look("transparent socket: $!");
    bind($socket, sockaddr($probe->{from}, 0)) or cannot_look("bind to $probe->{from}: $!");
    fcntl($socket, F_SETFL, fcntl($socket, F_GETFL, 0) | O_NONBLOCK) or cannot_look("fcntl: $!");
    $probe->{socket} = $socket;
    if (connect($socket, sockaddr(@{ $probe->{to} }))) { $probe->{connected} = 1 }
    elsif ($! == EINPROGRESS) { $probe->{pending} = 1 }
}

# Ticks since boot: Time::HiRes is not in perl-base, and a clock set in between must not end the wait.
my $tick = POSIX::sysconf(POSIX::_SC_CLK_TCK());
sub now { (POSIX::times())[0] / $tick }
my $begun = now();
while (my @pending = grep { $_->{pending} } @probes) {
    my $elapsed = now() - $begun;
    last if $elapsed >= $patience || ($elapsed >= $silence && !grep { $_->{admitted} } @pending);
    my $writable = '';
    vec($writable, fileno($_->{socket}), 1) = 1 for @pending;
    my $ready = $writable;
    select(undef, $ready, undef, 0.05) > 0 or next;
    for my $probe (grep { vec($ready, fileno($_->{socket}), 1) } @pending) {
        $probe->{pending} = 0;
        $probe->{connected} = unpack('i', getsockopt($probe->{socket}, SOL_SOCKET, SO_ERROR)) == 0;
    }
}

my ($leak, $deaf, $unproven, %heard) = (0, 0, 0);
for my $probe (@probes) {
    $heard{ $probe->{unit} } //= 0;
    $heard{ $probe->{unit} } ||= $probe->{admitted} && $probe->{connected};
    next if !$probe->{admitted} == !$probe->{connected};
    my ($address, $port) = @{ $probe->{to} };
    printf "%s %s %s %s\n", ($probe->{admitted} ? 'deaf' : 'leak'), $probe->{unit}, "$address port $port", $probe->{from};
    $probe->{admitted} ? $deaf++ : $leak++;
}
for my $unit (sort keys %heard) {
    next if $heard{$unit};
    print "unproven $unit\n";
    $unproven++;
}
exit($leak ? 5 : $unproven ? 4 : $deaf ? 3 : 0);
