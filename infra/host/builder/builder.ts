/**
 * Layer 9 on the machine, without what is served: for each hook with a site the service that takes deliveries and asks,
 * runs git and publishes; what watches for them; the timer that asks when nobody did; and hugo's units (hugo.ts).
 * What watches is started by the site's layer, once the web root leads to a release (site.ts).
 */
import type { BuilderSettings } from "../../../service/builder/settings.ts";
import type { HostFile, HostLayer } from "../../apply/layer.ts";
import { remoteOf, type SiteHook, sitesOf } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { builderUser, paths, units } from "../paths.ts";
import { spoolGroup } from "../receiver/receiver.ts";
import { sandbox } from "../sandbox.ts";
import { deployKeyPath } from "../secrets/secrets.ts";
import { hugoRoot, hugoServiceText, hugoSocketPath, hugoSocketText } from "./hugo.ts";
import { activateBuilder, builderFacts, restoreBuilder, retireBuilder } from "./scripts.ts";

/** Root's, before each build. */
const egressScript = `${paths.lib}/egress`;

const MiB = 1 << 20;

/** As long as this no marker came: a burst of pushes is one build. */
const debounceMilliseconds = 1_000;

const settingsPath = (hook: string) => `${paths.builderSettings}/${hook}.json` as const;
const knownHostsPath = (hook: string) => `${paths.builderSettings}/${hook}.known_hosts` as const;

/** What `service/builder` reads. */
export function builderSettings({ name, repository, branch, site }: SiteHook): BuilderSettings {
  const { limits } = site;
  return {
    hook: name,
    repository,
    branch,
    spool: `${paths.spool}/${name}`,
    asks: `${paths.asks}/${name}`,
    site: `${paths.sites}/${name}`,
    content: site.content,
    webRoot: site.webRoot,
    paths: [...site.paths],
    keep: [...site.keep],
    assets: [...site.assets],
    submodules: site.submodules,
    ...(remoteOf(repository).ssh && { knownHosts: knownHostsPath(name) }),
    hugo: { socket: hugoSocketPath(name) },
    limits: {
      releaseBytes: limits.releaseMiB * MiB,
      pagesPercent: limits.pagesPercent,
      seconds: limits.seconds,
      debounceMilliseconds,
      memoryMiB: limits.memoryMiB,
      tasks: limits.tasks,
    },
  };
}

/** What ProtectHome= hides, and a site may well lie in. */
const inHome = (path: string): boolean => /^\/(home|root|run\/user)(\/|$)/.test(path);

/** ProtectHome=yes, or the two folders alone of it. */
function homes({ content, webRoot }: SiteHook["site"]): string {
  const shown = [content, webRoot].filter(inHome);
  return shown.length === 0
    ? "ProtectHome=yes"
    : `# Of the homes only what this site names; either may be missing at the moment.
ProtectHome=tmpfs
${shown.map((path) => `BindReadOnlyPaths=-${path}`).join("\n")}`;
}

/** git indexes a pack in memory, beside Node's 100 MiB. */
const leastMemoryMiB = 512;

export function buildServiceText(hook: SiteHook): string {
  const { name, repository, site } = hook;
  const folders = [paths.spool, paths.asks, paths.sites].map((folder) => `${folder}/${name}`);
  return `[Unit]
Description=pushgate: rebuild of ${name}
Wants=${units.hugoSocket(name)}
After=${units.hugoSocket(name)} ${units.egress} network.target nss-lookup.target
# A service that may not start any more would take what watches down with it. It waits RestartSec instead, for ever.
StartLimitIntervalSec=0

[Service]
Type=exec
# As root, outside the sandbox: without the table no build.
ExecStartPre=+${egressScript}
# One whose asker was killed would be met by the next.
ExecStartPre=+-/usr/bin/systemctl stop "pushgate-hugo-${name}@*.service"
# What a hugo that was cut off left is another account's.
ExecStartPre=+-/usr/bin/find ${paths.sites}/${name}/work -mindepth 1 -maxdepth 1 -name former-* -exec rm -rf {} +
ExecStart=/usr/bin/node ${paths.builder}
Environment=NODE_ENV=production PUSHGATE_SETTINGS=${settingsPath(name)}
${remoteOf(repository).ssh ? `LoadCredentialEncrypted=deploy-key:${deployKeyPath(name)}\n` : ""}SyslogIdentifier=${builderUser}
Restart=on-failure
RestartSec=2s
TimeoutStopSec=15s
User=${builderUser}
# Takes deliveries out of the spool.
SupplementaryGroups=${spoolGroup}
ReadWritePaths=${folders.join(" ")}
# Releases are read by the web server.
UMask=0022
CPUQuota=${site.limits.cpuPercent}%
CPUWeight=20
IOWeight=20
MemoryMax=${Math.max(site.limits.memoryMiB, leastMemoryMiB)}M
MemorySwapMax=0
TasksMax=${site.limits.tasks}
LimitCORE=0

# git and hugo's socket; to whom, ${units.egress} says by account, as an address list here could not name a port.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX

${sandbox(
  "node",
  'Node asks for pkey_alloc, git and ssh for limits and owners: told "no" they go on, killed they do not.',
  homes(site),
)}
`;
}

/** Only what holds as long as it is true: a change that is merely told of would be lost while a build runs. */
const pathText = ({ name }: SiteHook): string => `[Unit]
Description=pushgate: watches for deliveries and asks of ${name}

[Path]
DirectoryNotEmpty=${paths.spool}/${name}
DirectoryNotEmpty=${paths.asks}/${name}
# What was taken and not published yet; a name with a dot is invisible to the two above.
PathExistsGlob=${paths.spool}/${name}/.taken/*
PathExistsGlob=${paths.asks}/${name}/.taken/*

[Install]
WantedBy=paths.target
`;

const reconcileText = ({ name }: SiteHook): string => `[Unit]
Description=pushgate: asks whether the repository of ${name} moved

[Service]
Type=oneshot
# A burst may have failed what watches.
ExecStart=-/usr/bin/systemctl reset-failed ${units.buildPath(name)}
ExecStart=/usr/bin/systemctl start ${units.buildPath(name)}
# Renamed into place: whoever else may write there could have laid a link of that name.
ExecStart=/bin/sh -c ': >${paths.asks}/.tick-${name} && mv -fT ${paths.asks}/.tick-${name} ${paths.asks}/${name}/tick'
TimeoutStartSec=30s
# The folder is the builder's, and what lies there may be a member's.
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER
ReadWritePaths=${paths.asks}
UMask=0022
DevicePolicy=closed
IPAddressDeny=any
KeyringMode=private
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateIPC=yes
PrivateMounts=yes
PrivateNetwork=yes
PrivateTmp=yes
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
`;

const timerText = ({ name, site }: SiteHook): string => `[Unit]
Description=pushgate: asks every ${site.reconcileMinutes} minutes whether the repository of ${name} moved

[Timer]
# After a boot at once, for what came while the machine was off.
OnBootSec=1min
OnUnitActiveSec=${site.reconcileMinutes}min
AccuracySec=5s

[Install]
WantedBy=timers.target
`;

/**
 * Asks: whoever may ask drops a file and sees no other; the builder's alone where nobody is named. What was taken lies
 * in a folder that is there before anybody may write beside it: whoever else made it could hold every build up.
 */
const tmpfilesText = (sites: readonly SiteHook[]): string =>
  [
    `d ${paths.asks} 0755 root root -`,
    `d ${paths.sites} 0755 root root -`,
    `d ${paths.hugo} 0755 root root -`,
    `d ${hugoRoot} 0755 root root -`,
    ...sites.flatMap(({ name, site: { writers } }) => [
      `d ${paths.asks}/${name} ${writers === undefined ? `0700 ${builderUser} ${builderUser}` : `1730 ${builderUser} ${writers}`} -`,
      ...[paths.asks, paths.spool].map((folder) => `d ${folder}/${name}/.taken 0700 ${builderUser} ${builderUser} -`),
      `d ${paths.sites}/${name} 0755 ${builderUser} ${builderUser} -`,
      `d ${paths.sites}/${name}/work 0700 ${builderUser} ${builderUser} -`,
    ]),
    "",
  ].join("\n");

export function builder(settings: Settings, _host: Host): HostLayer {
  const sites = sitesOf(settings);
  const plain = (path: HostFile["path"], text: string): HostFile => ({ path, text, mode: "0644", owner: "root:root" });
  const unit = (name: string, text: string) => plain(`${paths.units}/${name}`, text);
  const script = {
    hooks: settings.hooks.map(({ name }) => name),
    sites: sites.map(({ name, site }) => ({ name, ...site })),
  };
  return {
    name: "builder",
    present: true,
    files: [
      plain(paths.builderTmpfiles, tmpfilesText(sites)),
      ...sites.flatMap((hook) => [
        plain(settingsPath(hook.name), `${JSON.stringify(builderSettings(hook), null, 2)}\n`),
        ...(remoteOf(hook.repository).ssh
          ? [plain(knownHostsPath(hook.name), `${hook.site.knownHosts.join("\n")}\n`)]
          : []),
        unit(units.build(hook.name), buildServiceText(hook)),
        unit(units.buildPath(hook.name), pathText(hook)),
        unit(units.reconcile(hook.name), reconcileText(hook)),
        unit(units.reconcileTimer(hook.name), timerText(hook)),
        unit(units.hugoSocket(hook.name), hugoSocketText(hook)),
        unit(units.hugo(hook.name), hugoServiceText(hook)),
      ]),
    ],
    // Drop-ins too, by hand or by `systemctl set-property`: they change what the files say without changing the files.
    owns: [
      paths.builderTmpfiles,
      `${paths.builderSettings}/*`,
      ...[paths.units, "/etc/systemd/system.control", "/run/systemd/system", "/run/systemd/system.control"].flatMap(
        (folder) => ["build-*", "hugo-*", "reconcile-*"].map((name) => `${folder}/pushgate-${name}.d/*.conf`),
      ),
      `${paths.units}/pushgate-build-*.service`,
      `${paths.units}/pushgate-build-*.path`,
      `${paths.units}/pushgate-reconcile-*.service`,
      `${paths.units}/pushgate-reconcile-*.timer`,
      `${paths.units}/pushgate-hugo-*.service`,
      `${paths.units}/pushgate-hugo-*.socket`,
    ],
    activate: activateBuilder(script),
    restore: restoreBuilder,
    facts: builderFacts(script),
    retire: retireBuilder,
    timeout: 90,
  };
}
