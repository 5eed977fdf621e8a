/**
 * How the sockets and the service are taken up. POSIX sh.
 *
 * Rules: a socket that is bound as declared is never restarted, because what waits in it would be lost; a changed
 * allowlist reaches the running socket by daemon-reload alone. systemd does not start a socket while its service runs,
 * so a new one comes up inside the service's restart: one transaction stops the service, starts the socket, starts the
 * service, and what arrives meanwhile on the others waits in them.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { HostFact } from "../../apply/layer.ts";
import { quote } from "../../apply/manifest.ts";
import { paths, receiverUser, units } from "../paths.ts";

/** Top level: nothing between it and the root whose list could widen a socket's. */
export const slice = "pushgate.slice";

export type ReceiverScript = {
  readonly listeners: readonly {
    readonly unit: string;
    readonly port: number;
    /** v4, v6, as ss writes them. */
    readonly bound: readonly [string, string];
    readonly mark: string;
    /** Ranges as systemd writes them, sorted by bytes. */
    readonly allow: string;
    readonly deny: string;
  }[];
  readonly hooks: readonly string[];
  /** Names of files in the credentials' folder; others go. */
  readonly credentials: readonly string[];
  readonly spoolGroup: string;
};

/** Account databases keep their former version beside them; saved, so that a removal leaves those too as they were. */
const accounts = `${paths.state}/accounts`;
const databases = "passwd group shadow gshadow";

/**
 * Asks the kernel, not the unit: after a daemon-reload the unit says what the file says, and a service that runs on
 * still holds the former listener. The control group tells whose list is enforced on it.
 */
const listening = `
# Listeners on port $1: address, mark, control group; one a line.
listening() {
  ss -Hltne "sport = :$1" 2>/dev/null |
    sed -n 's/^[^ ]* *[^ ]* *[^ ]* *\\([^ ]*\\) .* fwmark:\\(0x[0-9a-f]*\\) cgroup:\\([^ ]*\\).*/\\1 \\2 \\3/p' | sort
}
# What socket file $1 wants to listen, in the same words; IPv6 only where the kernel has it.
declared() {
  mark=$(sed -n 's/^Mark=//p' "$1")
  sed -n 's/^ListenStream=//p' "$1" | while read -r address; do
    case $address in '['*) [ -e /proc/net/if_inet6 ] || continue ;; esac
    echo "$address $mark /$(sed -n 's/^Slice=//p' "$1")/\${1##*/}"
  done | sort
}
port_of() { sed -n 's/^ListenStream=.*:\\([0-9]*\\)$/\\1/p;T;q' "$1"; }
`;

/** The list that is in force, which is not always the unit's. */
const admitted = readFileSync(new URL("admitted.pl", import.meta.url), "utf8");

/**
 * Brings sockets and service to what the files say; `$renew` is yes where the service must restart in any case. A socket
 * that is bound as its file says is left alone.
 */
const takeUp = `
# Sockets of source sets that are no more; the service holds their descriptors until it restarts.
for path in $changed; do
  case $path in
    ${paths.units}/pushgate-receiver-*.socket)
      [ ! -e "$path" ] || continue
      systemctl stop "\${path##*/}" 2>/dev/null || :
      rm -f "${paths.units}/sockets.target.wants/\${path##*/}"
      renew=yes
      ;;
  esac
done
systemctl daemon-reload
for path in ${paths.units}/pushgate-receiver-*.socket; do
  [ -e "$path" ] || continue
  unit=\${path##*/}
  if systemctl is-active --quiet "$unit"; then
    [ "$(listening "$(port_of "$path")")" != "$(declared "$path")" ] || continue
    say "$unit is bound otherwise than declared, restarting it"
    systemctl stop "$unit"
  fi
  systemctl reset-failed "$unit" 2>/dev/null || :
  renew=yes
done
[ "$(systemctl is-active ${units.receiver})" = active ] || renew=yes
if [ "$renew" = yes ]; then
  systemctl reset-failed ${units.receiver} 2>/dev/null || :
  begun=$(date +%s)
  systemctl restart ${units.receiver}
  # A receiver that cannot use its settings is gone within a second.
  for _ in 1 2 3 4 5 6; do
    sleep 0.2
    [ "$(systemctl is-active ${units.receiver})" = active ] || {
      say "the receiver does not stay up. It says:"
      journalctl -u ${units.receiver} --since "@$begun" -n 10 -o cat --no-pager >&2
      exit 1
    }
  done
fi
# systemd 252 puts a changed list in force with the daemon-reload; 257 only when something starts in the same slice, and
# until then the former one stays: a range taken away would still be let in.
systemd-run --quiet --wait --collect --slice=${slice} --unit=pushgate-receiver-lists true
`;

export const activateReceiver = ({ listeners, hooks, credentials, spoolGroup }: ReceiverScript): string => `${listening}
say() { printf 'receiver: %s\\n' "$*" >&2; }
if ! id ${receiverUser} >/dev/null 2>&1 && [ ! -e ${accounts} ]; then
  mkdir -p ${accounts}.new
  chmod 0700 ${accounts}.new
  for name in ${databases}; do
    [ ! -e "/etc/$name-" ] || cp -p "/etc/$name-" ${accounts}.new/
  done
  mv ${accounts}.new ${accounts}
fi
systemd-sysusers ${paths.sysusers}
# An account of an older layout keeps its group otherwise.
[ "$(id -gn ${receiverUser})" = ${spoolGroup} ] || usermod -g ${spoolGroup} ${receiverUser}
systemd-tmpfiles --create ${paths.tmpfiles}
for folder in ${paths.spool}/*/; do
  folder=\${folder%/}
  case " ${hooks.join(" ")} " in
    *" \${folder##*/} "*) ;;
    *) rmdir -- "$folder" 2>/dev/null || say "kept $folder: its hook is gone, accepted deliveries are still in it" ;;
  esac
done
rmdir --ignore-fail-on-non-empty ${paths.units}/pushgate-receiver*.d ${paths.units}/${slice}.d 2>/dev/null || :

renew=no
for path in $changed; do
  case $path in
    ${paths.receiverSettings} | ${paths.units}/${units.receiver} | ${paths.units}/${units.receiver}.d/*) renew=yes ;;
  esac
done
systemctl enable --quiet ${listeners.map(({ unit }) => unit).join(" ")} ${units.receiver}
${takeUp}
for unit in ${listeners.map(({ unit }) => unit).join(" ")}; do
  systemctl is-active --quiet "$unit" || {
    say "$unit does not listen. It says:"
    journalctl -u "$unit" -n 5 -o cat --no-pager >&2
    exit 1
  }
done
# No unit asks for these any more.
for path in ${paths.credentials}/*; do
  case " ${credentials.join(" ")} " in *" \${path##*/} "*) ;; *) rm -rf -- "$path" ;; esac
done
# What the guard closed was just opened: it proves it again, or closes it again. What it says is its layer's to report.
if [ -s /run/pushgate-guard/closed ]; then
  systemctl start ${units.guard} || cat /run/pushgate-guard/verdict >&2
fi
`;

/** The former files are back; what was bound for the refused ones may still be. */
export const restoreReceiver = `${listening}
say() { printf 'receiver: %s\\n' "$*" >&2; }
renew=yes
if [ ! -e ${paths.units}/${units.receiver} ]; then
  systemctl stop ${units.receiver} 2>/dev/null
  systemctl daemon-reload
  exit 0
fi
${takeUp}`;

export const retireReceiver = ({ spoolGroup }: ReceiverScript): string => `
say() { printf 'receiver: %s\\n' "$*" >&2; }
cd ${paths.units} || exit 1
for unit in pushgate-receiver-*.socket ${units.receiver}; do
  [ ! -e "$unit" ] || systemctl disable --quiet --now "$unit" || exit 1
  systemctl reset-failed "$unit" 2>/dev/null
done
systemctl stop ${slice} 2>/dev/null
rmdir --ignore-fail-on-non-empty sockets.target.wants 2>/dev/null
# Half-written files never were a delivery; anything else was accepted, and is not ours to throw away.
if [ -d ${paths.spool} ]; then
  find ${paths.spool} -mindepth 2 -maxdepth 2 -type f -name '.*.tmp' -delete
  find ${paths.spool} -depth -type d -empty -delete
fi
if [ -d ${paths.spool} ]; then
  chown -R root:root ${paths.spool} && chmod -R u=rwX,g=,o= ${paths.spool} || exit 1
  say "kept ${paths.spool}: $(find ${paths.spool} -type f | wc -l) accepted deliveries were never taken; remove it once they are of no use"
fi
if id ${receiverUser} >/dev/null 2>&1; then userdel ${receiverUser} || exit 1; fi
if getent group ${spoolGroup} >/dev/null; then groupdel ${spoolGroup} || exit 1; fi
if [ -d ${accounts} ] && ! grep -qs '^pushgate-' /etc/passwd /etc/group; then
  for name in ${databases}; do
    if [ -e "${accounts}/$name-" ]; then cp -p "${accounts}/$name-" /etc/; else rm -f "/etc/$name-"; fi
  done
  rm -rf ${accounts}
fi
`;

export const receiverFacts = ({ listeners, hooks, credentials, spoolGroup }: ReceiverScript): HostFact[] => [
  ...listeners.flatMap(({ unit, port, bound, mark, allow, deny }): HostFact[] => [
    {
      name: `${unit} is`,
      read: `echo $(systemctl is-enabled ${unit}) $(systemctl is-active ${unit}) in $(systemctl show -p ControlGroup --value ${unit})`,
      want: `enabled active in /${slice}/${unit}`,
    },
    {
      name: `${unit} is bound to loopback port ${port}, marked`,
      read: `${listening}
want='${bound[0]} ${mark} /${slice}/${unit}'
[ ! -e /proc/net/if_inet6 ] || want="$want,"'${bound[1]} ${mark} /${slice}/${unit}'
found=$(listening ${port} | paste -sd , -)
[ "$found" = "$want" ] && echo yes || echo "\${found:-nothing}"`,
      want: "yes",
    },
    {
      name: `${unit} admits`,
      read: `sorted() { systemctl show -p "$1" --value ${unit} | tr ' ' '\\n' | LC_ALL=C sort | paste -sd ' ' -; }
${said('"$(sorted IPAddressAllow), not $(sorted IPAddressDeny)"', `${allow}, not ${deny}`)}`,
      want: hashed(`${allow}, not ${deny}`),
    },
    {
      name: `the kernel admits to ${unit}`,
      read: `group=$(systemctl show -p ControlGroup --value ${unit})
${said(`"$(perl -MPOSIX -MSocket -e ${quote(admitted)} "$group")"`, allow)}`,
      want: hashed(allow),
    },
  ]),
  {
    name: `address lists of ${slice} and -.slice, which would widen the sockets'`,
    read: `echo none $(systemctl show -p IPAddressAllow --value ${slice} -- -.slice)`,
    want: "none",
  },
  {
    name: `${units.receiver} is`,
    read: `echo $(systemctl is-enabled ${units.receiver}) $(systemctl is-active ${units.receiver})`,
    want: "enabled active",
  },
  {
    name: `${units.receiver} runs what is installed`,
    read: `since=$(date -d "$(systemctl show -p ExecMainStartTimestamp --value ${units.receiver})" +%s)
newest=$(stat -c %Y ${paths.receiver} ${paths.receiverSettings} ${paths.units}/${units.receiver} ${paths.credentials}/* | sort -n | tail -n 1)
[ "$(systemctl show -p NeedDaemonReload --value ${units.receiver})" = no ] && [ "$since" -ge "$newest" ] && echo yes || echo no`,
    want: "yes",
  },
  {
    name: `hooks with a credential in ${paths.credentials}`,
    read: `ls -A ${paths.credentials}`,
    want: credentials.join("\n"),
  },
  {
    name: "the spool's folders",
    read: `stat -c '%n %a %U:%G' ${[paths.spool, ...hooks.map((hook) => `${paths.spool}/${hook}`)].join(" ")} 2>/dev/null | sort`,
    want: [
      `${paths.spool} 750 root:${spoolGroup}`,
      ...hooks.map((hook) => `${paths.spool}/${hook} 2770 ${receiverUser}:${spoolGroup}`),
    ]
      .sort()
      .join("\n"),
  },
];

/** Shell: prints `word`, or its hash where `want` is compared by hash. */
const said = (word: string, want: string): string =>
  hashed(want) === want ? `printf '%s\\n' ${word}` : `printf %s ${word} | sha256sum | cut -c 1-64`;

/** A long list as its hash: what a fact says is cut at 2 KiB. */
function hashed(text: string): string {
  return text.length <= 1500 ? text : createHash("sha256").update(text).digest("hex");
}
