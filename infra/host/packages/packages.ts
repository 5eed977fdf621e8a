/**
 * The distribution's packages that the other layers run. Installed without starting anything, without recommends,
 * without removing or upgrading what is there; never taken away again, as others may have come to use them.
 */

import type { HostLayer } from "../../apply/layer.ts";
import { remoteOf, sitesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { paths } from "../paths.ts";

/** perl-base and util-linux are Essential on Debian and Ubuntu, so the guard has them without asking. */
const always = ["iproute2", "nftables", "nginx", "nodejs", "openssl"];

/** The rebuild's. A hugo of the operator's own, elsewhere, is the operator's. */
function ofSites(settings: Settings): string[] {
  const sites = sitesOf(settings);
  return [
    ...(sites.length > 0 ? ["ca-certificates", "git"] : []),
    ...(sites.some(({ site }) => site.hugo.path === distributionsHugo) ? ["hugo"] : []),
    ...(sites.some(({ repository }) => remoteOf(repository).ssh) ? ["openssh-client"] : []),
  ];
}
const distributionsHugo = "/usr/bin/hugo";

const needed = (settings: Settings): string[] => [...always, ...ofSites(settings)].sort();

const installed = (name: string): string =>
  `dpkg-query -W -f='\${db:Status-Status}\\n' ${name} 2>/dev/null | grep -qx installed`;

/** Set while an nginx that we are installing still has the distribution's default site. */
const newNginx = `${paths.state}/nginx-is-new`;

/** Seconds that another package manager (unattended-upgrades, say) may hold the lock. */
const lockTimeout = 300;

const activate = (names: readonly string[]): string => `export LC_ALL=C DEBIAN_FRONTEND=noninteractive
# On Ubuntu, needrestart would restart other people's services after an install.
export NEEDRESTART_SUSPEND=1
say() { echo "packages: $*" >&2; }
shim=/usr/sbin/policy-rc.d

missing=
for package in ${names.join(" ")}; do
  ${installed('"$package"')} || missing="$missing $package"
done

# Answered by invoke-rc.d: 101 means "no service is started by its install". One that is there is somebody's own answer.
shim_in() {
  [ -e "$shim" ] && ! grep -qs '^# pushgate' "$shim" && return
  printf '#!/bin/sh\\n# pushgate: in place while packages are installed\\nexit 101\\n' >"$shim"
  chmod 0755 "$shim"
}
shim_out() {
  ! grep -qs '^# pushgate' "$shim" || rm -f "$shim"
}

# The lists' lock is the one that DPkg::Lock::Timeout does not wait for.
refresh() {
  waited=0
  until said=$(apt-get -q update 2>&1); do
    case $said in
      *"Could not get lock"*) [ "$waited" -lt ${lockTimeout} ] && waited=$((waited + 5)) && sleep 5 && continue ;;
    esac
    say "the package lists could not be refreshed, going on with those here: $(echo "$said" | tail -n 2)"
    return 0
  done
}

if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || {
    say "no apt-get here to install$missing with; install them by hand, or use Debian 12 or later, or an Ubuntu LTS from 24.04"
    exit 1
  }
  case $missing in *nginx*) mkdir -p ${paths.state} && : >${newNginx} ;; esac
  trap shim_out EXIT
  trap 'exit 1' HUP INT TERM
  shim_in
  refresh
  say "installing$missing"
  # shellcheck disable=SC2086
  apt-get -q -y --no-install-recommends --no-remove -o DPkg::Lock::Timeout=${lockTimeout} \\
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install $missing </dev/null >&2 || {
    say "apt-get could not install$missing; if dpkg was interrupted: dpkg --configure -a"
    exit 1
  }
fi
# Also where all is there by now: an install that was killed after its work left it behind.
shim_out

# A new nginx would serve the packager's page on port 80; nothing but the origin port may become reachable. An nginx
# that was here before us keeps every file. The mark outlives an install that was cut short.
if [ -e ${newNginx} ]; then
  rm -f /etc/nginx/sites-enabled/default /etc/nginx/conf.d/default.conf ${newNginx}
fi`;

export function packages(settings: Settings, _host: Host): HostLayer {
  const names = needed(settings);
  return {
    name: "packages",
    files: [],
    owns: [],
    activate: activate(names),
    facts: names.map((name) => ({
      name: `package ${name}`,
      read: `if ${installed(name)}; then echo installed; else echo missing; fi`,
      want: "installed",
    })),
    retire: ":",
    present: true,
    // A slow mirror and a held lock together.
    timeout: 900,
  };
}
