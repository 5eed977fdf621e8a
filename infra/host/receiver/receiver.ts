/**
 * Layers 7 and 8 on the machine: one socket a source set, whose allowlist the kernel enforces, and the service behind
 * them in its sandbox. facts: IPAddressAllow= on the service would not hold for sockets it is handed, so it stands on
 * the .socket; a parent slice's list would widen it unseen, so the sockets have a slice of their own; and `localhost` is
 * in no list, so that a proxy which lost its transparent bind is refused instead of let in.
 */
import ipaddr from "ipaddr.js";
import type { ReceiverSettings } from "../../../service/settings.ts";
import type { HostFile, HostLayer } from "../../apply/layer.ts";
import { type SourceSet, sourceSets } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { anywhere, loopback } from "../../networks.ts";
import { paths, receiverUser, units } from "../paths.ts";
import { mark } from "../routing/routing.ts";
import { sandbox } from "../sandbox.ts";
import { credentialFiles } from "../secrets/secrets.ts";
import { activateReceiver, receiverFacts, restoreReceiver, retireReceiver, slice } from "./scripts.ts";

/** Whoever is in it may take deliveries out of the spool; the receiver's primary group, so that its sandbox maps it. */
export const spoolGroup = "pushgate-spool";
export const credentialPath = (hook: string) => `${paths.credentials}/${hook}` as const;

const MiB = 1 << 20;

/** A range as systemd prints it back, so that text can be compared. */
export function asSystemd(cidr: string): string {
  const [address = "", bits] = cidr.split("/");
  const parsed = ipaddr.parse(address);
  return `${parsed.toString()}/${bits ?? (parsed.kind() === "ipv4" ? 32 : 128)}`;
}

export function receiverSettings({
  hooks,
  limits: { proxyRate: _, proxyBurst: __, ...limits },
}: Settings): ReceiverSettings {
  return { spool: paths.spool, hooks: hooks.map(({ name, gitHost, branch }) => ({ name, gitHost, branch })), limits };
}

const sliceText = `[Unit]
Description=pushgate: the receiver and its sockets

# No IPAddressAllow= here: a slice's list is added to the lists of everything below it.
[Slice]
`;

const socketText = ({ name, port, cidrs }: SourceSet): string => `[Unit]
Description=pushgate: deliveries of ${name}

[Socket]
ListenStream=${loopback.v4}:${port}
ListenStream=[${loopback.v6}]:${port}
BindIPv6Only=ipv6-only
# Where the machine has no ::1, that line alone would otherwise keep the whole socket from starting.
FreeBind=yes
# A restart of the service keeps them waiting here; none is lost.
Backlog=1024
# Replies are addressed to the visitor; by this mark they stay on the machine (${units.routing}).
Mark=0x${mark.toString(16)}
Service=${units.receiver}
Slice=${slice}
# \`systemctl status\` then shows what came in.
IPAccounting=yes
IPAddressDeny=any
${cidrs.map((cidr) => `IPAddressAllow=${cidr}`).join("\n")}

[Install]
WantedBy=sockets.target
`;

/**
 * The receiver holds at most 16 bodies, or 64 MiB (service/receiver/limits.ts); each is there once in pieces and once
 * whole. Node and its code take about 100 MiB.
 */
const memoryMiB = ({ bodyBytes }: Settings["limits"]): number =>
  192 + Math.ceil((2 * Math.max(16 * bodyBytes, 64 * MiB)) / MiB);

export function serviceText(settings: Settings): string {
  const sockets = sourceSets(settings).map(({ name }) => units.socket(name));
  return `[Unit]
Description=pushgate: the receiver
Wants=${sockets.join(" ")}
After=${sockets.join(" ")}
# A service that may not start any more takes its sockets down with it. It waits RestartSec instead, for ever.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=/usr/bin/node ${paths.receiver}
Environment=NODE_ENV=production PUSHGATE_SETTINGS=${paths.receiverSettings}
${sockets.map((socket) => `Sockets=${socket}`).join("\n")}
${settings.hooks.map(({ name }) => `LoadCredentialEncrypted=${name}:${credentialPath(name)}`).join("\n")}
SyslogIdentifier=${receiverUser}
Restart=on-failure
RestartSec=2s
# It answers what is open within 10 s of SIGTERM.
TimeoutStopSec=15s
Slice=${slice}
MemoryMax=${memoryMiB(settings.limits)}M
TasksMax=64

# Static, as it hands files to another account, which cannot enter a dynamic user's folders.
User=${receiverUser}
Group=${spoolGroup}
ReadWritePaths=${paths.spool}
UMask=0077

# It accepts on sockets it is handed, and needs no network of its own.
PrivateNetwork=yes
RestrictAddressFamilies=none
IPAddressDeny=any

${sandbox("node", 'Node asks for pkey_alloc, which is not in the set: told "no" it goes on, killed it does not start.')}

[Install]
WantedBy=multi-user.target
`;
}

const sysusersText = `# The accounts' numbers are the machine's choice.
g ${spoolGroup} - -
u ${receiverUser} -:${spoolGroup} "pushgate receiver" ${paths.spool}
`;

/** Group-writable and setgid: whoever takes a delivery out removes its file, and new files belong to the group. */
const tmpfilesText = ({ hooks }: Settings): string =>
  [
    `d ${paths.spool} 0750 root ${spoolGroup} -`,
    ...hooks.map(({ name }) => `d ${paths.spool}/${name} 2770 ${receiverUser} ${spoolGroup} -`),
    "",
  ].join("\n");

export function receiver(settings: Settings, _host: Host): HostLayer {
  const sets = sourceSets(settings);
  const plain = (path: HostFile["path"], text: string): HostFile => ({ path, text, mode: "0644", owner: "root:root" });
  const listeners = sets.map(({ name, port, cidrs }) => ({
    unit: units.socket(name),
    port,
    bound: [`${loopback.v4}:${port}`, `[${loopback.v6}]:${port}`] as const,
    mark: `0x${mark.toString(16)}`,
    allow: cidrs.map(asSystemd).sort().join(" "),
    deny: [anywhere.v4, anywhere.v6].sort().join(" "),
  }));
  const hooks = settings.hooks.map(({ name }) => name);
  const script = { listeners, hooks, credentials: credentialFiles(settings), spoolGroup };
  return {
    name: "receiver",
    present: true,
    files: [
      plain(paths.sysusers, sysusersText),
      plain(paths.tmpfiles, tmpfilesText(settings)),
      plain(paths.receiverSettings, `${JSON.stringify(receiverSettings(settings), null, 2)}\n`),
      plain(`${paths.units}/${slice}`, sliceText),
      ...sets.map((set) => plain(`${paths.units}/${units.socket(set.name)}`, socketText(set))),
      plain(`${paths.units}/${units.receiver}`, serviceText(settings)),
    ],
    // Drop-ins too, by hand or by `systemctl set-property`: they change what the files say without changing the files.
    owns: [
      paths.sysusers,
      paths.tmpfiles,
      paths.receiverSettings,
      ...[paths.units, "/etc/systemd/system.control", "/run/systemd/system", "/run/systemd/system.control"].flatMap(
        (folder) => [`${folder}/pushgate-receiver*.d/*.conf`, `${folder}/${slice}.d/*.conf`],
      ),
      `${paths.units}/${slice}`,
      `${paths.units}/pushgate-receiver-*.socket`,
      `${paths.units}/${units.receiver}`,
    ],
    activate: activateReceiver(script),
    restore: restoreReceiver,
    facts: receiverFacts(script),
    retire: retireReceiver(script),
    timeout: 90,
  };
}
