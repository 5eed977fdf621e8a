# Tests connections: each argument is "source,destination,port", and its line of output ends in "yes" or "no".
# With arguments "listen,address,port[,mark]" it listens there instead, and returns when it does: a child keeps the
# sockets until the namespace ends.
use strict; use warnings;
use Errno qw(EINPROGRESS);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use Socket qw(:DEFAULT inet_pton pack_sockaddr_in6);

sub six { $_[0] =~ /:/ }
sub name { six($_[0]) ? pack_sockaddr_in6($_[1], inet_pton(AF_INET6, $_[0])) : pack_sockaddr_in($_[1], inet_pton(AF_INET, $_[0])) }
sub stream { socket(my $s, six($_[0]) ? AF_INET6 : AF_INET, SOCK_STREAM, 0) or die "socket: $!"; $s }

if ($ARGV[0] =~ /^listen,/) {
    my @open;
    for (@ARGV) {
        my (undef, $address, $port, $mark) = split /,/;
        my $s = stream($address);
        setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
        setsockopt($s, 41, 26, pack('i', 1)) if six($address); # IPV6_V6ONLY
        setsockopt($s, SOL_SOCKET, 36, pack('i', $mark)) or die "SO_MARK: $!" if $mark;
        bind($s, name($address, $port)) or die "bind $address: $!";
        listen($s, 1024) or die "listen: $!";
        push @open, $s;
    }
    exit if fork // die "fork: $!";
    close STDOUT; sleep 300; exit;
}

my @tried = map {
    my ($from, $to, $port) = split /,/;
    my $s = stream($from);
    (six($from) ? setsockopt($s, 41, 75, 1) : setsockopt($s, 0, 19, 1)) or die "transparent: $!";
    bind($s, name($from, 0)) or die "bind $from: $!";
    fcntl($s, F_SETFL, fcntl($s, F_GETFL, 0) | O_NONBLOCK);
    my $now = connect($s, name($to, $port));
    { text => "$from $to $port", socket => $s, yes => $now, wait => !$now && $! == EINPROGRESS };
} @ARGV;
my $left = 0.5;
while ($left > 0 and my @wait = grep { $_->{wait} } @tried) {
    my $ready = ''; vec($ready, fileno($_->{socket}), 1) = 1 for @wait;
    my $writable = $ready;
    (my $n, $left) = select(undef, $writable, undef, $left);
    last if $n <= 0;
    for (grep { vec($writable, fileno($_->{socket}), 1) } @wait) {
        $_->{wait} = 0;
        $_->{yes} = unpack('i', getsockopt($_->{socket}, SOL_SOCKET, SO_ERROR)) == 0;
    }
}
print "$_->{text} ", ($_->{yes} ? 'yes' : 'no'), "\n" for @tried;
