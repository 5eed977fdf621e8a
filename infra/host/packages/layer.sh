# new_nginx: a mark, while Debian's nginx.service must still be disabled.
shim=/usr/sbin/policy-rc.d
# Seconds that another package manager, such as unattended-upgrades, may hold a lock.
lock_timeout=300

# A line for each package that is installed. dpkg-query reads its whole database for each call.
installed() {
  # shellcheck disable=SC2086
  dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' $packages 2>/dev/null | sed -n 's/^installed //p'
}

# In one line each, of what `installed` printed as $now: packages that are not installed, and those of an earlier version
# than the last apply left. An upgrade is no drift.
absent() {
  # shellcheck disable=SC2086 # names and versions
  set -- $now
  found=''
  for package in $packages; do among "$package" "$*" || found="$found $package"; done
  echo "${found# }"
}
downgraded() {
  [ ! -e "$versions" ] || echo "$now" | grep -Fxv -f "$versions" | while read -r package version; do
    ! dpkg --compare-versions "$version" lt "$(sed -n "s/^$package //p" "$versions")" || echo "$package"
  done | paste -sd ' ' -
}

state() {
  now=$(installed) missing=$(absent) older=$(downgraded)
  echo "${missing:+missing: }${missing:-${older:+downgraded: }${older:-installed}}"
}

# Folders of pushgate that an account other than root can write.
# shellcheck disable=SC2086
writable() { find $folders -maxdepth 1 -type d \( ! -user root -o -perm /022 \) 2>/dev/null; }

retire() { rm -f "$versions"; }

# invoke-rc.d runs the shim: exit status 101 keeps an install from starting services. A policy-rc.d that is already on
# the host stays in charge.
shim_in() {
  [ -e "$shim" ] && ! grep -qs '^# pushgate' "$shim" && return
  printf '#!/bin/sh\n# pushgate: in place while packages are installed\nexit 101\n' >"$shim"
  chmod 0755 "$shim"
}

shim_out() { ! grep -qs '^# pushgate' "$shim" || rm -f "$shim"; }

# DPkg::Lock::Timeout does not cover the lock of the package lists.
refresh() {
  waited=0
  until said=$(apt-get -q update 2>&1); do
    case $said in
      *"Could not get lock"*) [ "$waited" -lt "$lock_timeout" ] && waited=$((waited + 5)) && sleep 5 && continue ;;
    esac
    say "apt-get could not refresh the package lists, so the present ones are used: $(echo "$said" | tail -n 2 | paste -sd ' ' -)"
    return 0
  done
}

activate() {
  export LC_ALL=C DEBIAN_FRONTEND=noninteractive
  # On Ubuntu, needrestart would restart services of other software after an install.
  export NEEDRESTART_SUSPEND=1
  writable | while read -r folder; do chown root:root -- "$folder" && chmod go-w -- "$folder"; done
  now=$(installed) missing=$(absent) older=$(downgraded)
  case $missing in *nginx*) mkdir -p "${new_nginx%/*}" && : >"$new_nginx" ;; esac
  missing=$missing${older:+ $older}
  if [ -n "$missing" ]; then
    trap shim_out EXIT
    trap 'exit 1' HUP INT TERM
    shim_in
    refresh
    say "installing $missing"
    # Has systemd read all files once, after the install, where each package's script would.
    # shellcheck disable=SC2086
    SYSTEMD_OFFLINE=1 apt-get -q -y --no-install-recommends --no-remove -o DPkg::Lock::Timeout="$lock_timeout" \
      -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install $missing </dev/null >&2 || {
      say "apt-get could not install $missing. If dpkg was interrupted, run: dpkg --configure -a"
      exit 1
    }
    systemctl daemon-reload
    # Their own layers may be in sync, and are not applied then.
    for unit in $services; do
      [ -z "$(replaced_under "$unit")" ] || systemctl try-restart "$unit"
    done
  fi
  # Also where no package is missing: an install that was killed after its work left the shim behind.
  shim_out
  # pushgate runs the program in a unit of its own. Debian's unit would open port 80 at the next boot. An nginx that was on
  # the host before pushgate stays as it is. The mark outlives an install that was cut short. systemd reads no link of an init
  # script beside a unit, and update-rc.d would take 0.4 s.
  if [ -e "$new_nginx" ]; then
    SYSTEMCTL_SKIP_SYSV=1 systemctl --quiet disable --no-reload --now nginx.service
    rm -f "$new_nginx"
  fi
  installed >"$versions.new"
  replace "$versions"
}
