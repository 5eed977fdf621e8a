# Makes the two file trees of one Debian release in $WORK: `bare`, and `packages` with $INSTALLED on top of it.
# Run in mount and process namespaces of its own, so that an interruption leaves neither mounts nor processes.
# Reads RELEASE, MIRROR, WORK, BASE (comma separated), OFFERED, INSTALLED (space separated).
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
bare=$WORK/bare

say() { echo "stage: $*"; }

say "debootstrap"
debootstrap --variant=minbase --include="$BASE" "$RELEASE" "$bare" "$MIRROR" >"$WORK/debootstrap.log" 2>&1 || {
  tail -n 20 "$WORK/debootstrap.log" >&2
  exit 1
}

say "package repository"
# A booted host reaches no mirror: the packages that it may install are in its own file system.
mkdir -p "$bare/opt/packages/partial"
chroot "$bare" apt-get -qq update
# Each by itself: packages that send mail exclude each other.
for package in $OFFERED; do
  chroot "$bare" apt-get -qq -y --no-install-recommends --download-only \
    -o Dir::Cache::archives=/opt/packages -o APT::Sandbox::User=root install "$package" >/dev/null
done
rm -rf "$bare/opt/packages/partial" "$bare/opt/packages/lock"
(
  cd "$bare/opt/packages"
  for deb in *.deb; do
    dpkg-deb -f "$deb"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d' ' -f1)"
  done >Packages
  printf 'Suite: %s\nCodename: %s\nOrigin: Debian\nSHA256:\n %s %s Packages\n' "$RELEASE" "$RELEASE" \
    "$(sha256sum Packages | cut -d' ' -f1)" "$(stat -c %s Packages)" >Release
)
rm -rf "$bare/etc/apt/sources.list.d" && mkdir "$bare/etc/apt/sources.list.d"
echo 'deb [trusted=yes] file:/opt/packages ./' >"$bare/etc/apt/sources.list"
rm -rf "$bare"/var/lib/apt/lists/* "$bare"/var/cache/apt/archives/*.deb
chroot "$bare" apt-get -qq update

say "accounts and units"
chroot "$bare" useradd --create-home --shell /bin/bash deploy
chroot "$bare" useradd --create-home --shell /bin/bash guest
echo 'deploy ALL=(ALL) NOPASSWD: ALL' >"$bare/etc/sudoers.d/deploy"
chmod 0440 "$bare/etc/sudoers.d/deploy"
# Each boot makes a new host key and a new machine-id.
rm -f "$bare"/etc/ssh/ssh_host_* "$bare/etc/machine-id"
: >"$bare/etc/resolv.conf"
systemctl --quiet --root="$bare" enable systemd-networkd.service
# The first unit waits for a network that never comes, the next two for a console; the timers would take dpkg's lock and
# processor time during a test.
for unit in systemd-networkd-wait-online.service console-getty.service getty@tty1.service apt-daily.timer \
  apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
  systemctl --quiet --root="$bare" disable "$unit" 2>/dev/null || true
done
ln -sf /dev/null "$bare/etc/systemd/system/console-getty.service"

say "packages"
cp -a "$bare" "$WORK/packages"
# shellcheck disable=SC2086
chroot "$WORK/packages" apt-get -qq -y --no-install-recommends install $INSTALLED >"$WORK/install.log" 2>&1 || {
  tail -n 20 "$WORK/install.log" >&2
  exit 1
}
