#!/usr/bin/perl
# Sends the request on its standard input to the receiver's socket, from an address in the git host's ranges, which this
# host does not have. Arguments: that address, and the port of the socket on loopback. Request and answer are in
# hexadecimal digits; "connected" comes before an answer. Needs root, and no module beyond perl-base.
use strict;
use warnings;
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

# IP_TRANSPARENT and IPV6_TRANSPARENT, which Socket does not name.
my %transparent = (4 => [0, 19], 16 => [41, 75]);
my ($from, $port) = @ARGV;
my $family = $from =~ /:/ ? AF_INET6 : AF_INET;
my $source = inet_pton($family, $from) // die "pushgate: $from is no address\n";
# perl-base's Socket has no name for IPv6's loopback.
my $to = $family == AF_INET ? INADDR_LOOPBACK : "\0" x 15 . "\1";
sub address { $family == AF_INET ? pack_sockaddr_in($_[0], $_[1]) : pack_sockaddr_in6($_[0], $_[1]) }

my $request = pack 'H*', do { local $/; <STDIN> } =~ s/\s//gr;
socket(my $socket, $family, SOCK_STREAM, 0) or die "pushgate: socket: $!\n";
setsockopt($socket, $transparent{length $source}[0], $transparent{length $source}[1], pack('i', 1))
    or die "pushgate: transparent socket: $!\n";
bind($socket, address(0, $source)) or die "pushgate: bind to $from: $!\n";
# Silence is how a socket rejects a source.
$SIG{ALRM} = sub { exit 0 };
alarm 3;
connect($socket, address($port, $to)) or exit 0;
# The receiver answers within ten seconds.
alarm 15;
print "connected ";
$| = 1;
syswrite($socket, $request) == length $request or exit 0;
print unpack 'H*', $_ while sysread($socket, $_, 65536);
