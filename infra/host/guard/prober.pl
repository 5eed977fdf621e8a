#!/usr/bin/perl
# Connects to each of the receiver's sockets and prints each connection that the socket's allowlist does not explain: it
# must open from the first and the last address of each range, and not from the addresses just below and just above.
# This is the proof that counts: unit files and `systemctl show` read the same whether or not the kernel enforces them.
#
# Arguments: addresses that every socket must reject. Standard input: `systemctl show -p Id -p ActiveState -p Listen
# -p IPAddressAllow` of the sockets, as they run in the middle of a change, too. Needs no module beyond perl-base.
# Exit status: 0 proven, 1 nothing to probe, 2 could not look, 3 some admitted source cannot connect, 4 no admitted
# source of a socket can connect, 5 a source connects that must not.
use strict;
use warnings;
use Errno qw(EINPROGRESS);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use POSIX ();
use Socket qw(:DEFAULT inet_pton inet_ntop pack_sockaddr_in6);

# IP_TRANSPARENT and IPV6_TRANSPARENT, which Socket does not name: bind to an address this host does not have.
my %transparent = (4 => [0, 19], 16 => [41, 75]);

# Loopback connects within a millisecond, so silence after 0.25 s is a rejection. An admitted source may lose its SYN to
# a full backlog, so it gets the time of one retransmission, which comes after 1 s.
my ($silence, $patience) = (0.25, 1.3);

sub cannot_look { print "could not look: @_\n"; exit 2 }

# Addresses are packed, 4 or 16 bytes in network order, so that those of one family compare as strings.
sub packed {
    my ($text) = @_; # A caller's $1 would change with the match.
    return inet_pton($text =~ /:/ ? AF_INET6 : AF_INET, $text) // cannot_look("$text is no address");
}
sub text { inet_ntop(length $_[0] == 4 ? AF_INET : AF_INET6, $_[0]) }
sub sockaddr { length $_[0] == 4 ? pack_sockaddr_in($_[1], $_[0]) : pack_sockaddr_in6($_[1], $_[0]) }

# First and last address.
sub range {
    my ($text, $length) = split m{/}, $_[0];
    my $address = packed($text);
    my $bits = 8 * length $address;
    my $mask = pack 'B*', '1' x ($length // $bits) . '0' x ($bits - ($length // $bits));
    return [$address & $mask, $address | ~$mask];
}

# The address just below (-1) or above (1), or none past either end of the family.
sub beside {
    my ($address, $step) = @_;
    my @bytes = unpack 'C*', $address;
    for my $byte (reverse @bytes) {
        $byte += $step;
        return pack 'C*', @bytes if $byte >= 0 && $byte <= 255;
        $byte &= 255;
    }
    return;
}

# No range is probed from unspecified, loopback, link-local, multicast and reserved addresses, nor from a broadcast
# address of this host: bound to that or to a multicast address, the kernel connects from 127.0.0.1 (measured).
my $routes = `ip -4 route show table local type broadcast 2>/dev/null`;
my %broadcast = map { packed($_) => 1 } $routes =~ /^broadcast ([\d.]+)/mg;

sub usable {
    my ($address) = @_;
    my $first = ord $address;
    return $address !~ /^\0{8}/ && $first < 0xfe if length $address == 16;
    return $first > 0 && $first != 127 && $first < 224 && !$broadcast{$address};
}

sub edges { my ($first, $last) = @{ $_[0] }; return grep { usable($_) } $first, $last eq $first ? () : $last }
sub neighbours { my ($first, $last) = @{ $_[0] }; return grep { usable($_) } beside($first, -1), beside($last, 1) }
sub contains { my ($range, $address) = @_; return $range->[0] le $address && $address le $range->[1] }

my %here = (4 => 1, 16 => scalar `cat /proc/net/if_inet6 2>/dev/null` =~ /^0{31}1 /m);

my @units;
{
    local $/ = '';
    while (my $block = <STDIN>) {
        next unless $block =~ /^ActiveState=active$/m;
        my ($id) = $block =~ /^Id=([\w.@-]+)$/m or next;
        my @listen;
        push @listen, [packed($1), $2] while $block =~ /^Listen=\[?([0-9a-f.:]+?)\]?:(\d+) \(Stream\)$/mg;
        my ($allow) = $block =~ /^IPAddressAllow=(.*)$/m;
        push @units, { id => $id, listen => \@listen, allow => [map { range($_) } split ' ', $allow // ''] };
    }
}

my @probes;
for my $unit (@units) {
    for my $to (grep { $here{ length $_->[0] } } @{ $unit->{listen} }) {
        my $of_family = sub { grep { length $_->[0] == length $to->[0] } @{ $_[0]{allow} } };
        my @ranges = $of_family->($unit);
        # One of each other socket's.
        my @elsewhere = map { (map { edges($_) } $of_family->($_))[0] // () } @units;
        my @rejected = grep { length $_ == length $to->[0] } map { packed($_) } @ARGV;
        for my $source (@elsewhere, map { neighbours($_) } @ranges) {
            push @rejected, $source if !grep { contains($_, $source) } @ranges;
        }
        my %once;
        push @probes,
            (map { { unit => $unit->{id}, to => $to, from => $_, admitted => 1 } } map { edges($_) } @ranges),
            (map { { unit => $unit->{id}, to => $to, from => $_, admitted => 0 } } grep { !$once{$_}++ } @rejected);
    }
}
exit 1 if !@probes;

for my $probe (@probes) {
    my $family = length $probe->{from};
    my $domain = $family == 4 ? AF_INET : AF_INET6;
    socket(my $socket, $domain, SOCK_STREAM, 0) or cannot_look("socket: $!");
    setsockopt($socket, $transparent{$family}[0], $transparent{$family}[1], pack('i', 1))
        or cannot_look("transparent socket: $!");
    bind($socket, sockaddr($probe->{from}, 0)) or cannot_look('bind to ' . text($probe->{from}) . ": $!");
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

my ($open, $closed, %connects) = (0, 0);
for my $probe (@probes) {
    $connects{ $probe->{unit} } ||= $probe->{admitted} && $probe->{connected};
    next if !$probe->{admitted} == !$probe->{connected};
    my $fault = $probe->{admitted} ? 'cannot connect' : 'connects and must not';
    printf "%s: %s from %s\n", $fault, $probe->{unit}, text($probe->{from});
    $probe->{admitted} ? $closed++ : $open++;
}
my @unproven = grep { !$connects{$_} } sort keys %connects;
print "no admitted source connects: $_\n" for @unproven;
exit($open ? 5 : @unproven ? 4 : $closed ? 3 : 0);
