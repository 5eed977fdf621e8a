/**
 * How nginx takes our server up, and what proves that it did. POSIX sh.
 *
 * Rules: `nginx -t` is not believed alone. It passes on configurations whose workers then die (CAP_NET_RAW outside the
 * master's bounding set: every site of that nginx goes down), and a master that cannot bind keeps its former
 * configuration while `systemctl reload` says yes. So the capability is read before anything is installed, and after a
 * reload there must be new workers, alive, holding the capability, our port must answer as ours, and every other
 * listener of this nginx that answered before must answer still.
 */

import type { HostFact } from "../../apply/layer.ts";
import { anywhere, loopback } from "../../networks.ts";
import { paths } from "../paths.ts";

/**
 * Written by `activate` where the kernel has IPv6 at all (with ipv6.disable=1 a `[::]` line stops nginx from starting);
 * the pattern matches nothing otherwise, which nginx accepts. Not below /etc: it is this machine's, not ours to declare.
 */
export const listen6 = {
  path: `${paths.state}/proxy-listen6.conf`,
  include: `${paths.state}/proxy-listen6*.conf`,
} as const;

/** The same for published sites: only the hooks' server may be the default one. */
export const websites = {
  listen6: {
    path: `${paths.state}/website-listen6.conf`,
    include: `${paths.state}/website-listen6*.conf`,
  },
  /** One a site, in nginx's usual form, for whatever counts visitors. */
  log: (hook: string) => `/var/log/nginx/pushgate-site-${hook}.log`,
  logs: "/var/log/nginx/pushgate-site-*.log*",
} as const;

/** The CA whose leaf the edge presents, of this stack alone. */
export const originPullCaPath = `${paths.tls}/origin-pull-ca.pem` as const;

/** What `pulls.ts` adds to the trust, once the edge presents it; the pattern matches nothing before. */
export const settled = {
  ca: `${paths.tls}/settled-ca.pem`,
  conf: `${paths.tls}/settled-ca.conf`,
  include: `${paths.tls}/settled-ca*.conf`,
} as const;

/** Debian's /etc/logrotate.d/nginx rotates /var/log/nginx/*.log. */
export const proxyLogs = {
  access: "/var/log/nginx/pushgate.log",
  error: "/var/log/nginx/pushgate-error.log",
} as const;

/** There when nginx was not running, or not enabled, before us: what a removal puts back. */
const started = `${paths.state}/proxy-started-nginx`;
const enabled = `${paths.state}/proxy-enabled-nginx`;

const anyV4 = anywhere.v4.split("/")[0];

/** Bit 13 of a capability mask, as /proc/PID/status prints it. */
const functions = `
say() { printf 'proxy: %s\\n' "$*" >&2; }
master() { systemctl show -p MainPID --value nginx.service; }
# Worker processes of master $1 that are not shutting down.
workers() {
  grep -ls "^PPid:[[:space:]]*$1\\$" /proc/[0-9]*/status | while IFS=/ read -r _ _ pid _; do
    [ "$(tr -d '\\0' <"/proc/$pid/cmdline" 2>/dev/null)" != 'nginx: worker process' ] || echo "$pid"
  done
}
# Whether mask $2 of process $1 holds CAP_NET_RAW (bit 13).
net_raw() {
  mask=$(sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null)
  [ $((0x\${mask:-0} >> 13 & 1)) = 1 ]
}
`;

/** What nginx on `port` says to whoever has no client certificate: "400 pushgate-proxy". */
const greeting = (port: number) => `
greeting() {
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 2 openssl s_client -quiet -connect ${loopback.v4}:${port} 2>/dev/null |
    tr -d '\\r' | sed -n 's/^HTTP[^ ]* \\([0-9]*\\).*/\\1/p; s/^X-Served-By: //p' | head -n 2 | paste -sd ' ' -
}
`;

/**
 * The candidate in place of the live file, seen by the real nginx with the real rest of its configuration: in a mount
 * namespace of its own, so that nothing outside it changes. `$staged` holds the layer's candidates.
 */
export const checkProxy = `${functions}
pid=$(master)
if [ "\${pid:-0}" != 0 ]; then
  net_raw "$pid" CapPrm || held=no
else
  case " $(systemctl show -p CapabilityBoundingSet --value nginx.service) " in *' cap_net_raw '*) ;; *) held=no ;; esac
fi
if [ "\${held:-yes}" = no ]; then
  say "nginx does not hold CAP_NET_RAW, so its workers would die on reload and every site with them."
  say "Cure: find what narrows it (systemctl cat nginx.service: CapabilityBoundingSet=, User=), add CAP_NET_RAW there, then systemctl daemon-reload && systemctl restart nginx"
  exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=${paths.nginx.replace(/\/[^/]*$/, "")}
cp -a "$folder" "$scratch/conf.d"
sed "s|\\(ssl_client_certificate \\)|\\1$staged|" "$1" >"$scratch/conf.d/\${1##*/}"
unshare --mount --propagation private sh -ec '
  mount --bind "$1/conf.d" "$2"
  nginx -t -q
  nginx -T 2>/dev/null | grep -qxF "# configuration file $3:" || {
    echo "proxy: nginx does not read $3. Cure: let the http block of /etc/nginx/nginx.conf include $2/*.conf" >&2
    exit 1
  }' check "$scratch" "$folder" ${paths.nginx}
`;

/** Of every other listening address of this nginx, those that answer HTTP at all: a worker took them. */
const neighbours = (port: number) => `
neighbours() {
  ss -Hltnp | sed -n '/("nginx",/s/^[^ ]* *[^ ]* *[^ ]* *\\([^ ]*\\):\\([0-9]*\\) .*/\\1 \\2/p' | sort -u | head -n 8 |
    while read -r address listens; do
      [ "$listens" != ${port} ] || continue
      case $address in ${anyV4} | '*') address=${loopback.v4} ;; '[::]') address=${loopback.v6} ;; esac
      address=\${address#[} address=\${address%]}
      # shellcheck disable=SC2016
      timeout 3 bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "HEAD / HTTP/1.0\\r\\nUser-Agent: pushgate\\r\\n\\r\\n" >&3 &&
        IFS= read -r line <&3 && [[ $line = HTTP/* ]]' - "$address" "$listens" 2>/dev/null && echo "$address $listens"
    done || :
}
`;

const reload = `
# Reloads, and waits for workers that were not there before and live on.
take_up() {
  pid=$(master)
  former=$(workers "$pid" | tr '\\n' ' ')
  systemctl reload nginx.service
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    fresh=
    for worker in $(workers "$pid"); do
      case " $former" in *" $worker "*) ;; *) fresh="$fresh $worker" ;; esac
    done
    [ -z "$fresh" ] || break
    sleep 0.2
  done
  [ -z "$fresh" ] || sleep 0.3
  for worker in $fresh; do kill -0 "$worker" 2>/dev/null && return 0; done
  say "nginx has no live worker with the new configuration. It says:"
  tail -n 5 /var/log/nginx/error.log >&2 || :
  return 1
}
`;

const logs = (sites: readonly string[]) => [proxyLogs.access, proxyLogs.error, ...sites.map(websites.log)].join(" ");

const writeListen6 = (path: string, parameters: string) => `printf 'listen [::]:${parameters};\\n' >${path}.new
  chmod 0644 ${path}.new
  mv -f ${path}.new ${path}`;

/** `sites`: hooks whose site is served. */
export const activateProxy = (
  port: number,
  sites: readonly string[],
): string => `${functions}${greeting(port)}${neighbours(port)}${reload}
mkdir -p ${paths.state}
if [ -e /proc/net/if_inet6 ]; then
  ${writeListen6(listen6.path, `${port} ssl default_server`)}
  ${writeListen6(websites.listen6.path, `${port} ssl`)}
else
  rm -f ${listen6.path} ${websites.listen6.path}
fi
nginx -t -q
if systemctl -q is-active nginx.service; then
  before=$(neighbours)
  take_up
else
  before=
  : >${started}
  systemctl start nginx.service
fi
# Or the next boot has no proxy.
systemctl --quiet is-enabled nginx.service || {
  : >${enabled}
  systemctl --quiet enable nginx.service
}
# Visitors' addresses are in it: as Debian keeps nginx's own logs.
chown :adm ${logs(sites)}
chmod 0640 ${logs(sites)}
for _ in 1 2 3 4 5 6 7 8 9 10; do
  said=$(greeting)
  [ "$said" != '400 pushgate-proxy' ] || break
  sleep 0.2
done
if [ "$said" != '400 pushgate-proxy' ]; then
  say "port ${port} answers \\"\${said:-nothing}\\" and not as this server. Cure: see who else listens there: ss -ltnp 'sport = :${port}'; ${"/var/log/nginx/error.log"} has nginx's side"
  exit 1
fi
after=$(neighbours)
printf '%s\\n' "$before" | while read -r site; do
  [ -n "$site" ] || continue
  case "
$after
" in *"
$site
"*) ;; *)
    say "another site of this nginx, on $site, answered before the reload and does not now"
    exit 1
    ;;
  esac
done
`;

/** The former files are back; workers of the refused configuration may be dead. */
export const restoreProxy = `${functions}${reload}
systemctl -q is-active nginx.service || exit 0
nginx -t -q && take_up
`;

/** Runs without our files being pruned yet; nginx must stop serving them now, as nobody tells it later. */
export const retireProxy = `${functions}${reload}
rm -f ${paths.nginx} ${listen6.path} ${websites.listen6.path} || exit 1
if systemctl -q is-active nginx.service; then
  nginx -t -q || { say "nginx refuses its other configuration, so it cannot drop ours. Cure: nginx -t, then again"; exit 1; }
  if [ -e ${started} ] && ! ls /etc/nginx/conf.d/*.conf >/dev/null 2>&1 &&
    ! ls /etc/nginx/sites-enabled 2>/dev/null | grep -qvx default; then
    # It ran for us alone; Debian's own placeholder page is nobody's site.
    systemctl stop nginx.service || exit 1
  else
    take_up || exit 1
  fi
fi
[ ! -e ${enabled} ] || systemctl --quiet disable nginx.service
rm -f ${started} ${enabled} ${proxyLogs.access}* ${proxyLogs.error}* ${websites.logs}
`;

export const proxyFacts = (port: number): HostFact[] => [
  {
    name: "nginx is",
    read: "echo $(systemctl is-enabled nginx.service) $(systemctl is-active nginx.service)",
    want: "enabled active",
  },
  {
    name: `nginx listens on the origin port ${port}, IPv6 too where the kernel has it`,
    read: `families=1
[ ! -e /proc/net/if_inet6 ] || families=2
[ "$(ss -Hltnp 'sport = :${port}' | grep -c '("nginx",')" = "$families" ] && echo yes || echo no`,
    want: "yes",
  },
  {
    name: "nginx's workers hold CAP_NET_RAW, for the transparent bind",
    read: `${functions}
for worker in $(workers "$(master)"); do
  net_raw "$worker" CapEff && echo yes || echo no
done | sort -u`,
    want: "yes",
  },
  {
    name: "nginx has loaded the present configuration",
    // A worker is as old as the configuration it runs. A second is the resolution of both clocks.
    read: `${functions}
now=$(date +%s)
newest=$(stat -c %Y ${paths.nginx} ${originPullCaPath} | sort -n | tail -n 1)
up=$(cut -d. -f1 /proc/uptime)
for worker in $(workers "$(master)"); do
  ticks=$(sed 's/.*) //' "/proc/$worker/stat" | cut -d' ' -f20)
  [ $((now - up + ticks / $(getconf CLK_TCK) + 1)) -ge "$newest" ] && echo yes || echo no
done | sort -u`,
    want: "yes",
  },
  {
    name: `the origin port ${port} refuses whoever has no certificate of this zone's edge`,
    read: `${greeting(port)}
greeting`,
    want: "400 pushgate-proxy",
  },
];
