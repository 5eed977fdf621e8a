# Has the host's own nginx read the new configuration, $1, before it is installed: without the logs and folders of the
# service, which root must not make, and with the new CA. $staged: the folder with all of the layer's new files.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed "s|$logs/[^ ;]*|/dev/null|; s|$run|$scratch|; s|$cache|$scratch|; s|$credential|$key|; s|$client_ca|$staged&|" "$1" >"$scratch/nginx.conf"
/usr/sbin/nginx -t -q -e stderr -c "$scratch/nginx.conf"
