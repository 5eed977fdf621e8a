# Downloads to $WORK/packages what apt-get dist-upgrade installs on a host of $IMAGE that goes to $RELEASE, as a repository.
# Run in a mount namespace of its own. Reads IMAGE, RELEASE, MIRROR, WORK.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
root=$WORK/root
mkdir "$root" "$WORK/upper" "$WORK/work"
mount -t overlay overlay -o "lowerdir=$IMAGE,upperdir=$WORK/upper,workdir=$WORK/work" "$root"
echo "deb $MIRROR $RELEASE main" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" apt-get -qq update
chroot "$root" apt-get -qq -y --download-only -o APT::Sandbox::User=root dist-upgrade >/dev/null
mkdir "$WORK/packages"
mv "$root"/var/cache/apt/archives/*.deb "$WORK/packages"
umount "$root"
cd "$WORK/packages"
for deb in *.deb; do
  dpkg-deb -f "$deb"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d' ' -f1)"
done >Packages
