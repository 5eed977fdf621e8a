/**
 * Every way in which a person changes a host: `pulumi preview` reports each, and `up` repairs it in place. The changes of a
 * round do not hide each other. reconcile.test.ts has each way in which a text can differ.
 */
import { expect } from "vitest";
import { sealed } from "../../infra/apply/version.ts";
import { originKey } from "../../infra/contract.ts";
import { nginxFolders, paths, settledCa, units } from "../../infra/host/paths.ts";
import { secrets } from "../fixtures.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { placesOf } from "./rebuild/site.ts";
import { repeatWhile } from "./repeat-while.ts";
import type { World } from "./world.ts";

/** `change`: a shell script that root runs on the host. `says`: texts that preview must print of the layer. */
type Mutation = readonly [layer: string, change: string, ...says: readonly string[]];

const { receiver, nginx, nginxSocket, guard, guardTimer, firewall, routing, egress, metricsSocket } = units;
const socket = units.socket(`${actors.gitlab.v4[0]}-32`);
const at = (unit: string) => `${paths.units}/${unit}`;
const { webRoot, site: folder, rootRequests } = placesOf("site");
const current = `${folder}/current`;
const tls = (name: string) => `${paths.tls}/${name}`;
const stamp = (layer: string) => `${paths.stamps}/${layer}`;
const other = (path: string) => `${path} has other contents`;
const stray = (path: string) => `${path} is not declared and will be removed`;
const not = (what: string, declared: string, found: string) =>
  `${what}: declared is "${declared}", the host reports "${found}`;
const is = (unit: string, found: string) => not(`${unit} is`, "enabled active", found);
const dropIn = (path: string, lines: string) =>
  `mkdir -p ${path} && printf '${lines}\\n' >${path}/own.conf && systemctl daemon-reload`;
/** A start of the unit then does nothing. */
const idle = (unit: string) => dropIn(`${at(unit)}.d`, "[Service]\\nExecStart=\\nExecStart=true");
/** As dpkg does it. */
const replaced = (path: string) => `f=$(readlink -f ${path}) && cp -p "$f" "$f.new" && mv "$f.new" "$f"`;
const installed = (unit: string, found = "no") => not(`${unit} runs what is installed`, "yes", found);
/** Debian 13's smallest installation lacks the program. */
const immutable = (path: string) => `! command -v chattr || chattr +i ${path}`;
const moved = (file: string) => `mv ${file} ${file}.own && ln -s ${file}.own ${file}`;
/** `work` happens while a file is another. */
const during = (file: string, work: string) =>
  `cp -p ${file} ${file}.own && echo '# own' >>${file} && ${work} && mv ${file}.own ${file}`;
const version = (name: string, text: string) =>
  `sed -i '/^Package: ${name}$/,/^$/s/^Version: .*/Version: ${text}/' /var/lib/dpkg/status`;

/**
 * In each round: the guard would repair tables and rules within a minute. One that runs is "activating", and may have systemd
 * restart nginx after its own end.
 */
export const unguarded: Mutation = [
  "guard",
  `systemctl --quiet disable --now ${guardTimer}
while [ "$(systemctl show -p ActiveState --value ${guard})" = activating ] ||
  systemctl list-jobs --no-legend 'pushgate-*' | grep -q .; do sleep 0.1; done`,
  is(guardTimer, "disabled inactive"),
];

/** Another socket of the receiver's, which admits more and stays active. */
export const widened = (name: string): Mutation => [
  "receiver",
  dropIn(`${at(name)}.d`, "[Socket]\\nIPAddressAllow=any"),
  ...[stray(`${at(name)}.d/own.conf`), `${name} admits: declared is`],
];

export const flushed: Mutation = ["firewall", "nft flush ruleset", not("table inet pushgate", "as declared", "absent")];

/** Of a host without a site, too. */
export const ofEachHost: readonly Mutation[] = [
  ["guard", idle(guard), stray(`${at(guard)}.d/own.conf`)],
  ["packages", "dpkg --remove --force-depends nodejs 2>&1", "missing: nodejs"],
  ["packages", `chmod 0777 ${paths.lib}`, not("pushgate's folders that others can write", "none", paths.lib)],
  ["origin-key", `chmod 0644 ${originKey}`, `\n- ${originKey} 644 root:root\n`],
  [
    "proxy",
    `sed -i 's/tokens off;/tokens of;/' ${paths.nginx}`,
    other(paths.nginx),
    "\n-     server_tokens of;\n+     server_tokens off;\n",
  ],
  ["proxy", `systemctl --quiet disable ${nginx}`, is(nginx, "disabled active")],
  [
    "secrets",
    `umask 077
echo another-owners-secret-0123456789-abcdef | systemd-creds encrypt --with-key=host --name=site - ${paths.credentials}/site`,
    not("credentials changed since they were installed", "none", "site"),
  ],
  [
    "receiver",
    `echo '// by hand' >>${paths.receiver}`,
    `the receiver in ${paths.lib}: differs (- on the host, + declared):`,
  ],
  // The receiver has not read this file yet: it must not stop the apply of new secrets.
  ["receiver", `echo '{' >${paths.receiverSettings}`, other(paths.receiverSettings), installed(receiver)],
  ["receiver", `systemctl --quiet disable ${receiver}`, is(receiver, "disabled active")],
  ["receiver", `chmod 0700 ${paths.spool}/site`, `\n- ${paths.spool}/site 2700 pushgate-receiver:pushgate-spool\n`],
  [
    "receiver",
    `${dropIn(`${at(socket)}.d`, "[Socket]\\nIPAddressAllow=any")}
systemd-run --quiet --wait --collect --slice=pushgate.slice true
systemctl --quiet disable --now ${socket}`,
    ...[stray(`${at(socket)}.d/own.conf`), `${socket} admits: declared is`],
    is(socket, "disabled inactive"),
  ],
  ["receiver", "usermod -s /bin/sh -aG adm pushgate-receiver", "pushgate-spool adm may log in with /bin/sh"],
  ["routing", "while ip rule del table 9460 2>/dev/null; do :; done", "IPv4 routing rule: declared is"],
  ["routing", "ip -6 route flush table 9460", "IPv6 route in table 9460: declared is"],
  ["routing", `ln -sf /dev/null ${at(routing)}`, `${at(routing)} is a `],
  ["firewall", idle(firewall), stray(`${at(firewall)}.d/own.conf`)],
  [
    "firewall",
    `systemctl --quiet disable --now ${firewall} && nft delete table inet pushgate`,
    ...[not("table inet pushgate", "as declared", "absent"), is(firewall, "disabled inactive")],
  ],
];

export const ofSites: readonly Mutation[] = [
  // The receiver, whose layer is in sync, runs with it.
  ["packages", version("nodejs", "1.0"), "downgraded: nodejs"],
  ["egress", `nft delete table inet pushgate_egress`, not("table inet pushgate_egress", "as declared", "absent")],
  ["egress", `rm ${stamp("egress")}`, "no stamp: the last apply did not finish"],
  ["egress", "gpasswd -a guest pushgate-build-site", "\n- guest is in the group pushgate-build-site\n"],
  [
    "builder",
    `echo '// by hand' >>${paths.builder}`,
    `the builder, fetcher, reporter in ${paths.lib}: differs (- on the host, + declared):`,
  ],
  [
    "builder",
    `sed -i '/^RootDirectory=/d' ${at("pushgate-generator-site@.service")}`,
    "\n+ RootDirectory=/run/pushgate-roots/site/generator\n",
  ],
  ["builder", `ln -sf /dev/null ${at(units.buildPath("docs"))}`, at(units.buildPath("docs"))],
  [
    "builder",
    `sed -i 's/"pagesPercent": 50/"pagesPercent": 0/' ${paths.builderSettings}/site.json`,
    '\n-     "pagesPercent": 0,\n+     "pagesPercent": 50,\n',
  ],
  ["builder", `rm ${paths.builderSettings}/docs.known_hosts`, `${paths.builderSettings}/docs.known_hosts is missing`],
  ["builder", `rmdir ${rootRequests}/../docs`, "\n+ /var/spool/pushgate-root/docs 770 root:pushgate-build-docs"],
  ["builder", `systemctl stop ${units.generatorSocket("docs")}`, `units of ${units.site("docs")} that are not active`],
  [
    "site",
    `systemctl --quiet disable --now ${units.site("site")}
systemctl stop ${units.site("docs")}
until [ "$(systemctl is-active ${units.reconcile("site")} ${units.reconcile("docs")} | sort -u)" = inactive ]; do sleep 0.1; done`,
    ...[is(units.site("site"), "disabled inactive"), is(units.site("docs"), "enabled inactive")],
  ],
  // Like a manual rollback.
  [
    "site",
    `ln -sfn "$(readlink -f ${current})" ${webRoot}`,
    not(`the link ${webRoot} leads to`, current, `${folder}/releases/`),
  ],
  [
    "proxy",
    `sed -i 's|root ${current};|root /var/www/html;|' ${paths.nginx}`,
    `\n-         root /var/www/html;\n+         root ${current};\n`,
  ],
];

export type Round = {
  readonly mutations: readonly Mutation[];
  /** Whether a mutation breaks the service until the repair. */
  readonly breaks?: true;
};

const files: readonly Mutation[] = [
  ["proxy", `chmod 0777 ${nginxFolders.logs}`, `the host reports "${nginxFolders.logs} 2777`],
  ["proxy", "usermod -aG adm pushgate-nginx", not("nginx's account", "pushgate-nginx / pushgate-nginx", "pushgate-ng")],
  ["receiver", `chown guest ${paths.receiverSettings}`, `${paths.receiverSettings} is 644 guest:root, declared is 644`],
  ["receiver", `rm -r ${paths.sysusers}`, `${paths.sysusers} is missing`],
  [
    "firewall",
    `echo '# own' >>${paths.nftables}
${immutable(paths.nftables)}`,
    ...[other(paths.nftables), "\n- # own"],
  ],
  [
    "firewall",
    "nft delete rule inet pushgate input handle $(nft -a list chain inet pushgate input | sed -n 's/.* # handle //p' | tail -n 1)",
    'the host reports "missing: ',
  ],
  ["firewall", `printf '#!/bin/sh\\n' >${paths.lib}/firewall-drift`, other(`${paths.lib}/firewall-drift`)],
  ["guard", `rm ${paths.lib}/prober && sed -i 's/^ports=.*/ports=/' ${paths.etc}/guard.conf`, "\n- ports=\n"],
  ["routing", `chmod 0644 ${paths.lib}/routing`, `${paths.lib}/routing is 644 root:root, declared is 755 root:root`],
  [
    "origin-certificate",
    `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=own -keyout /dev/null -out ${tls("origin.pem")} 2>/dev/null`,
    ...[other(tls("origin.pem")), "does not match the key on this host"],
  ],
  ["origin-key", moved(tls("origin.csr")), `\n- ${tls("origin.csr")} 777 root:root\n`],
  [
    "client-ca",
    `echo >>${settledCa.path}; rm ${settledCa.line}`,
    other(settledCa.path),
    `${settledCa.line} is missing`,
  ],
  ["egress", `: >${paths.egress}; ${immutable(paths.egress)}`, other(paths.egress)],
  ["egress", "usermod -d /tmp pushgate-fetcher-docs", "\n- pushgate-fetcher-docs /tmp pushgate-fetcher-docs\n"],
  ["tools", `echo x >>${paths.tools}/sass-1.89.2/sass`, "another than was installed"],
  ["secrets", `chmod 0644 ${paths.credentials}/docs`, "\n- docs 644 root:root\n"],
  ["site", `rm ${paths.state}/sites/docs`, "note missing"],
  ["packages", `chown guest ${paths.tls}`, paths.tls],
];

const ofUnits: readonly Mutation[] = [
  ["receiver", `systemctl set-property ${socket} IPAddressAllow=198.51.100.0/24`, `${socket} admits: declared is`],
  [
    "receiver",
    `systemctl set-property --runtime ${receiver} MemoryMax=1G`,
    stray(`/run/systemd/system.control/${receiver}.d/50-MemoryMax.conf`),
  ],
  ["receiver", dropIn(`${at("pushgate.slice")}.d`, "[Slice]\\nIPAddressAllow=203.0.113.0/24"), "203.0.113.0/24"],
  [
    "receiver",
    `mkdir -p /etc/systemd/system.control && sed 's/0660/0666/' ${at(metricsSocket)} >/etc/systemd/system.control/${metricsSocket}
systemctl daemon-reload`,
    stray(`/etc/systemd/system.control/${metricsSocket}`),
  ],
  [
    "receiver",
    dropIn(`${at("pushgate-.service")}.d`, "[Service]\\nNice=5"),
    stray(`${at("pushgate-.service")}.d/own.conf`),
  ],
  [
    "proxy",
    `mkdir -p /run/systemd/system/${nginx}.d
printf '[Service]\\nNice=5\\n' >/run/systemd/system/${nginx}.d/former.conf
systemctl daemon-reload && systemctl restart ${nginx} && rm -r /run/systemd/system/${nginx}.d && systemctl daemon-reload`,
    installed(nginx),
  ],
  ["proxy", `systemctl --quiet disable ${nginxSocket}`, is(nginxSocket, "disabled active")],
  ["egress", `ln -sf /dev/null ${at(egress)}`, `${at(egress)} is a symbolic link`],
  ["egress", "nft flush chain inet pushgate_egress output", "missing: meta skuid"],
  ["routing", `systemctl --quiet disable ${routing}`, not(`${routing} at boot`, "enabled", "disabled")],
  ["firewall", `sed -i 's/^After=.*//' ${at(firewall)}`, "\n+ After=nftables.service\n"],
  ["guard", `systemctl --quiet disable ${guard}`, not(`${guard} at boot`, "enabled", "disabled")],
  ["builder", `systemctl stop ${units.buildPath("site")}`, `${units.site("site")} that are not active`],
  [
    "builder",
    `systemctl set-property ${units.build("docs")} CPUQuota=5%`,
    stray(`/etc/systemd/system.control/${units.build("docs")}.d/50-CPUQuota.conf`),
  ],
  ["builder", dropIn(`${at(units.reconcileTimer("docs"))}.d`, "[Timer]\\nOnUnitActiveSec=1y"), "docs.timer.d/own.conf"],
  ["site", `systemctl --quiet disable ${units.site("docs")}`, is(units.site("docs"), "disabled active")],
  // The last one, as systemd has read its files again by then.
  [
    "builder",
    `echo '# own' >>${at(units.reconcileTimer())}`,
    "whose files changed after systemd read them",
    "\n- # own",
  ],
];

const kernel: readonly Mutation[] = [
  ["firewall", "nft insert rule inet pushgate input tcp dport 8443 accept", "added: tcp dport 8443 accept"],
  ["routing", "ip route add blackhole 198.51.100.0/25 table 9460", "\n- blackhole 198.51.100.0/25"],
  ["routing", "ip rule add pref 5 fwmark 0xe7 lookup 9460", "IPv4 routing rule: differs"],
  [
    "egress",
    `${dropIn(`${at(egress)}.d`, "[Service]\\nRestart=no\\nExecStart=\\nExecStart=false")}; systemctl restart ${egress} || :`,
    is(egress, "enabled failed"),
  ],
  ["receiver", replaced("/usr/bin/node"), installed(receiver, "replaced since its start: /usr/bin/node")],
  ["proxy", replaced("/usr/sbin/nginx"), installed(nginx, "replaced since its start: /usr/sbin/nginx")],
  ["secrets", `rm ${paths.state}/credentials.sha256`, 'sums of credentials: declared is "600 root:root"'],
  ["tools", `rm -r ${paths.tools}/sass-1.89.2`, 'declared is "as installed", the host reports "missing"'],
  ["builder", `mkdir ${paths.tools}/hugo-0.1.0`, not(`what is in ${paths.tools} for no site`, "none", "hugo-0.1.0")],
  ["builder", "chmod 0777 /run/pushgate-roots", "\n- /run/pushgate-roots 777 root:root\n"],
];

const stamps: readonly Mutation[] = [
  // systemd still has the lines, for the next start. Nothing else shows that.
  [
    "receiver",
    `${dropIn(`/run/systemd/system/${receiver}.d`, "[Service]\\nNice=5")} && rm -r /run/systemd/system/${receiver}.d`,
    installed(receiver),
  ],
  ["firewall", `rm ${stamp("firewall")}`, "no stamp"],
  // Of an earlier apply: nothing on the host differs, so preview shows the step alone.
  ["routing", `sed -i '1s/.*/${sealed("routing", "0.1.0-01234567")}/' ${stamp("routing")}`],
  // nginx has not yet read its files when the command ends: the next change must not be among them.
  ["proxy", during(paths.nginx, `systemctl reload ${nginx} && sleep 1`), installed(nginx)],
  // Of the right key, near its end.
  [
    "origin-certificate",
    `openssl req -x509 -key ${originKey} -subj /CN=own -days 1 -out ${tls("origin.pem")} 2>/dev/null`,
    ...[other(tls("origin.pem")), not("origin certificate", "valid", "is not for ")],
  ],
  ["receiver", `printf '\\033[2J\\033]0;own\\007' >${stamp("receiver")}`, "the stamp on the host is not valid"],
  ["builder", `echo '$(reboot);\`reboot\`' >${stamp("builder")}`, "the stamp on the host is not valid"],
  ["egress", `: >${stamp("egress")}`, "the stamp on the host is not valid"],
  ["packages", `rm ${stamp("packages")} && mkdir ${stamp("packages")}`, "the stamp on the host is not valid"],
  ["site", `yes 0123456789ab | head -n 100000 >${stamp("site")}`, "the stamp on the host is not valid"],
];

const broken: readonly Mutation[] = [
  ["receiver", `systemctl kill -s STOP ${receiver}`, not(`${receiver} answers`, "yes", "")],
  [
    "proxy",
    `systemctl stop ${nginxSocket} ${nginx}`,
    is(nginxSocket, "enabled inactive"),
    is(nginx, "enabled inactive"),
  ],
  [
    "routing",
    "ip rule add pref 80 lookup main",
    not("route of a reply to an IPv4 visitor", "dev lo table 9460", "else"),
  ],
  ["firewall", "nft insert rule inet pushgate input tcp dport 8443 drop", "added: tcp dport 8443 drop"],
  ["site", `rm ${webRoot}`, not(`the link ${webRoot} leads to`, current, "")],
  ["origin-key", `rm ${originKey}`, not("origin key and certificate request", "valid", "no key")],
  // Cloudflare signs another certificate, with which its layer is updated.
  ["origin-certificate", ":"],
  ["secrets", `rm -r ${paths.credentials}`, `credentials in ${paths.credentials}: differs`],
  ["egress", "userdel pushgate-fetcher-docs", "\n+ pushgate-fetcher-docs /nonexistent pushgate-fetcher-docs"],
  [
    "builder",
    `rm -r ${at("pushgate-build@.service")} && systemctl daemon-reload`,
    "pushgate-build@.service is missing",
  ],
];

/** The guard finds that the kernel admits more than is declared, and closes the sockets. */
const notInForce: readonly Mutation[] = [
  [
    "receiver",
    `${dropIn(`/run/systemd/system/${socket}.d`, "[Socket]\\nIPAddressAllow=any")} && systemctl start ${guard} || :`,
    `${socket} admits: declared is`,
  ],
  ["guard", ":", not("the allowlist", "proven", "closed: the allowlist does not hold")],
];

export const rounds: readonly Round[] = [
  { mutations: ofEachHost, breaks: true },
  { mutations: ofSites },
  { mutations: files },
  { mutations: ofUnits },
  { mutations: kernel },
  { mutations: stamps },
  { mutations: broken, breaks: true },
  { mutations: notInForce, breaks: true },
];

/** Changes that are no drift. */
export const harmless: readonly string[] = [
  "nft add table inet own && nft add chain inet own c '{ type filter hook input priority 5; }'",
  "ip rule add pref 30000 from 203.0.113.99 lookup main",
  "ip rule add pref 50 fwmark 0x10000/0x10000 lookup main",
  "ip route add blackhole 203.0.113.99",
  `touch ${paths.nginx} ${paths.receiver} ${paths.receiverSettings} ${paths.nftables} ${tls("origin.pem")}`,
  `ln ${paths.nginx} /root/nginx.conf && cp -p ${paths.nginx} ${paths.nginx}.bak`,
  "systemctl daemon-reload",
  `systemctl reload ${nginx}`,
  `systemctl restart ${receiver}`,
  `systemctl restart ${nginx}`,
  `kill -KILL "$(systemctl show -p MainPID --value ${receiver})"; sleep 3`,
  `systemctl start ${guard}`,
  `systemctl start ${units.reconcile("site")}`,
  `mv ${nginxFolders.logs}/hooks.log ${nginxFolders.logs}/hooks.log.1; systemctl kill --signal=USR1 ${nginx}`,
  "echo 'PrintMotd no' >/etc/ssh/sshd_config.d/own.conf && systemctl restart ssh",
  "useradd own && gpasswd -a own pushgate-metrics && gpasswd -a own pushgate-spool",
  `echo note >${paths.etc}/README && mkdir ${paths.etc}/own`,
  "printf '[Service]\\nExecStart=true\\n' >/etc/systemd/system/own.service && systemctl enable --quiet --now own",
  dropIn("/etc/systemd/system/ssh.service.d", "[Service]\\nNice=1"),
  "mkdir -p /etc/sysctl.d && echo vm.swappiness=10 >/etc/sysctl.d/own.conf",
  "echo 'd /run/own 0755 root root -' >/etc/tmpfiles.d/own.conf && systemd-tmpfiles --create",
  version("libc-bin", "99"),
  version("nginx", "99"),
  "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime",
  "echo '# own' >/etc/nginx/conf.d/own.conf && nginx -q -t",
  "systemctl reset-failed && journalctl --quiet --rotate --vacuum-size=1M",
];

/** `look`: the answers to some requests. */
export async function repairs(
  { world: { stack }, host }: { readonly world: Pick<World, "stack">; readonly host: Host },
  { mutations, breaks }: Round,
  look: () => Promise<{ readonly status: number }[]>,
): Promise<{ readonly mutations: number; readonly looks: number }> {
  const all = [unguarded, ...mutations];
  for (const [, change] of all) await host.inside(change);
  const layers = [...new Set(all.map(([layer]) => layer))].sort();
  const updates = layers.map((layer) => `update ${host.name}-${layer}`);
  // For a lost key Cloudflare signs another certificate.
  const stepsOf = (run: Awaited<ReturnType<typeof stack.up>>) =>
    run.steps.flatMap(({ op, name }) => (name.endsWith(" origin certificate") ? [] : `${op} ${name}`)).sort();

  const preview = await stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  const said = preview.diagnostics.map(({ message }) => message.replace(/^warning: /, ""));
  const named = said.flatMap((line) => new RegExp(`^${host.name}: ([a-z-]+): `).exec(line)?.[1] ?? []);
  expect(layers).toEqual(expect.arrayContaining(named));
  for (const [layer, change, ...says] of all)
    for (const words of says)
      expect(said.filter((line) => line.startsWith(`${host.name}: ${layer}: `)).join("\n"), change).toContain(words);
  expect(stepsOf(preview)).toEqual(updates);
  const shown = preview.stdout + preview.stderr;
  for (const secret of [secrets.site.current, secrets.docs.current, "another-owners-secret", "\x1b"])
    expect(shown).not.toContain(secret);

  const { done: up, seen } = await repeatWhile(() => stack.up(), look, 50);
  expect(up.code, up.stdout).toBe(0);
  expect(stepsOf(up)).toEqual(updates);
  expect(seen.length).toBeGreaterThan(20);
  // What a mutation broke is served from its repair on, without another gap.
  for (const [i] of seen[0]!.entries())
    expect(seen.map((answers) => answers[i]!.status).join(" ")).toMatch(
      breaks ? /^((?!20[02])\d+ )*20[02]( 20[02])*$/ : /^20[02]( 20[02])*$/,
    );
  await stack.cleanPreview();
  return { mutations: all.length, looks: seen.length };
}
