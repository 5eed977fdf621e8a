# shellcheck shell=sh
# The operator's ssh, with one connection for all commands: `sh -c <this text> ssh [-p PORT] -- TARGET COMMAND`. Who can
# enter the folder of its socket can read what is sent, so without a folder of this account alone each command connects
# anew. Not in the home, whose path may be longer than that of a socket may be.
export LC_ALL=C
account=$(id -u)
socket=/tmp/pushgate-$account
mkdir -m 700 "$socket" 2>/dev/null
[ -n "$(find "$socket" -prune -type d -user "$account" -perm 700 2>/dev/null)" ] && socket=$socket/%C || socket=none
# -a, -k, -x and the last two: whatever ~/.ssh/config says, a host gets no agent, ticket, display or port of this computer.
exec ssh -akxT -o PermitLocalCommand=no -o ClearAllForwardings=yes -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 \
  -o ServerAliveCountMax=4 -o ControlMaster=auto -o ControlPath="$socket" -o ControlPersist=60 "$@"
