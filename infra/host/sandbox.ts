/**
 * What the receiver, the rebuild and hugo may not do: the three that handle what strangers send. A line that one of them
 * loosens is loosened here, for that one, with what it is for; network, memory and places stand in their own units. And
 * the same of the three that place what the kernel enforces.
 */

/** Why each may compile while it runs. */
const compiling = {
  node: 'Node compiles while it runs: with "yes" it dies at start.',
  hugo: "hugo 0.132 and later compile formulas' WebAssembly while they run, and so does a node that `hugo.exec` lets in.",
} as const;

/** Lines of a [Service] section, up to the end. `denied`: what meets EPERM in there, where that is worth a word. */
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

/** Of the three that place tables, rules and routes, as root, and do nothing else. `families`, `kernel`: what one has besides. */
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
