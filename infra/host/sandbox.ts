/**
 * The sandbox lines that several services share: receiver, builder and Hugo, which handle data of foreign origin, and
 * the three oneshots that place tables, rules and routes. Network, memory and folders are in each service's own unit.
 *
 * Not a prefix drop-in (pushgate-.service.d): it would also hold for pushgate-apply.service, the transient unit of each
 * apply, and outrank that unit's own settings. No apply could then write to /etc (measured on systemd 257).
 */

/** Why each may map memory that is writable and executable. */
const compiling = {
  node: 'Node compiles code while it runs: with "yes" it dies at start.',
  hugo: "Hugo 0.132 and later compile WebAssembly for formulas while they run; so does Node where `hugo.exec` allows it.",
} as const;

/** Lines of a [Service] section. `denied`: a comment on the calls that fail with EPERM. */
export function sandbox(program: keyof typeof compiling, denied?: string, homes = "ProtectHome=yes"): string {
  return `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
DeviceAllow=
DevicePolicy=closed
KeyringMode=private
LockPersonality=yes
# ${compiling[program]}
MemoryDenyWriteExecute=no
PrivateDevices=yes
PrivateIPC=yes
PrivateMounts=yes
PrivateTmp=yes
PrivateUsers=yes
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
${homes}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
${denied === undefined ? "" : `# ${denied}\n`}SystemCallErrorNumber=EPERM`;
}

/** Of the oneshots, which run as root. `families`, `kernel`: additional address families and lines of one of them. */
export const placing = (families = "", kernel = ""): string => `CapabilityBoundingSet=CAP_NET_ADMIN
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
ProtectControlGroups=yes
ProtectHome=yes
${kernel}ProtectSystem=strict
RestrictAddressFamilies=${families}AF_NETLINK AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM`;
